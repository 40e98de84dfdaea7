#pragma once
// What a subcommand is: it adds itself to the command line and returns what to run when it is
// chosen. main.cpp holds the table; each subcommand is one file.

#include <functional>
#include <string>

namespace CLI {
class App;  // its header costs each source that includes it 5 s
}

namespace stepcast::cli {

using Run = std::function<int()>;  // returns the exit code

struct Command {
  const char* name;
  const char* summary;
  const char* example;  // the foot of its --help
  Run (*add)(CLI::App& command);
  bool passes_on = false;  // what it does not know belongs to the command that it starts
};

extern const Command advise_command;
extern const Command plan_command;
extern const Command compare_command;
extern const Command explain_command;
extern const Command simulate_command;
extern const Command run_command;
extern const Command gpu_check_command;
extern const Command launch_command;
extern const Command list_command;
extern const Command show_command;
extern const Command memory_command;
extern const Command volume_command;
extern const Command topo_command;
extern const Command trace_command;
extern const Command completion_command;
extern const Command man_command;
extern const Command doctor_command;
extern const Command schema_command;
extern const Command nccl_command;
extern const Command collectives_command;
extern const Command calibrate_command;
extern const Command fit_command;
extern const Command validate_command;
extern const Command sweep_command;
extern const Command results_command;
extern const Command import_command;
extern const Command emit_command;
extern const Command help_command;
extern const Command tune_command;
extern const Command serve_command;

// Writes to stdout; a closed pipe is no error.
void print(const std::string& text);
// One line on stderr: what was assumed, what was left out.
void note(const std::string& text);

}  // namespace stepcast::cli
