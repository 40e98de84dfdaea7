// Completion scripts, asked in the shells that are installed; manual pages; doctor.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT
}

// What a shell prints for a script.
std::string shell(const std::string& program, const std::string& script) {
  const TemporaryFile file("." + program, script), out(".out", "");
  const int code =
      std::system((program + " " + file.path() + " >" + out.path() + " 2>&1").c_str());  // NOLINT
  CAPTURE(read(out.path()));
  CHECK(code == 0);
  return read(out.path());
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

std::string completed_by_bash(const std::string& words) {
  const std::string script = run("completion bash").out;
  REQUIRE(!script.empty());
  // The words as bash would hand them over; the last one is being typed.
  return shell("bash", script + "\ncd '" + std::string(STEPCAST_SOURCE_DIR) + "'\nCOMP_WORDS=(" +
                           words +
                           ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_stepcast\n"
                           "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
}

}  // namespace

TEST_CASE("bash completes commands, verbs, options and their words") {
  CHECK(has_line(completed_by_bash("stepcast sim"), "simulate"));
  CHECK(has_line(completed_by_bash("stepcast topo ''"), "import"));
  const std::string options = completed_by_bash("stepcast simulate --acc");
  CHECK(has_line(options, "--accumulation"));
  CHECK(!has_line(options, "--strategy"));
  const std::string strategies = completed_by_bash("stepcast simulate --strategy ''");
  CHECK(has_line(strategies, "fsdp2"));
  CHECK(!has_line(strategies, "--strategy"));
  CHECK(has_line(completed_by_bash("stepcast simulate --strategy = fs"), "fsdp2"));
  CHECK(has_line(completed_by_bash("stepcast simulate --model llama-3-8"), "llama-3-8b"));
  CHECK(has_line(completed_by_bash("stepcast topo import --gp"), "--gpu"));
  CHECK(has_line(completed_by_bash("stepcast simulate --trace docs/accu"), "docs/accuracy.md"));
  CHECK(has_line(completed_by_bash("stepcast simulate examples/llama-3-8b-fsdp2-16"),
                 "examples/llama-3-8b-fsdp2-16-nodes.toml"));
}

TEST_CASE("zsh takes the completion script" * doctest::skip(!installed("zsh"))) {
  const std::string script = run("completion zsh").out;
  const std::string out =
      shell("zsh",
            "compdef() { print registered $2 }\ncompadd() { shift; print -l -- \"$@\" }\n"
            "_files() { print files }\n_describe() { print -l -- \"${(@P)2}\" }\n" +
                script +
                "\nwords=(stepcast simulate --strategy ''); CURRENT=4; _stepcast\n"
                "words=(stepcast topo ''); CURRENT=3; _stepcast\n"
                "words=(stepcast simulate --mo); CURRENT=3; _stepcast\n");
  CHECK(has_line(out, "registered stepcast"));
  CHECK(has_line(out, "fsdp2"));
  CHECK(has_line(out, "import"));
  CHECK(out.find("--model:catalog name") != std::string::npos);
}

TEST_CASE("fish takes the completion script" * doctest::skip(!installed("fish"))) {
  const std::string script = run("completion fish").out;
  const std::string out = shell("fish", script +
                                            "\ncomplete -C 'stepcast simulate --strategy '\n"
                                            "complete -C 'stepcast topo '\n"
                                            "complete -C 'stepcast simulate --accum'\n");
  CHECK(out.find("fsdp2\t") != std::string::npos);
  CHECK(out.find("import\t") != std::string::npos);
  CHECK(out.find("--accumulation\t") != std::string::npos);
}

TEST_CASE("a shell that is not known is refused with those that are") {
  const Output o = run("completion tcsh");
  CHECK(o.code == 2);
  CHECK(o.err.find("accepted: bash, zsh, fish") != std::string::npos);
  CHECK(run("completion").code == 2);
}

TEST_CASE("manual pages say what --help says, and groff sets them without a word") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stepcast-man-" + std::to_string(getpid()));
  REQUIRE(run("man --output " + folder.string()).code == 0);
  const std::string page = read((folder / "stepcast-simulate.1").string());
  CHECK(page.find("\\fB\\-\\-strategy\\fR") != std::string::npos);
  CHECK(page == run("man simulate").out);
  const std::string program = read((folder / "stepcast.1").string());
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++pages;
    const std::string file = entry.path().string();
    CAPTURE(file);
    if (!installed("groff")) continue;
    const TemporaryFile warnings(".txt", "");
    CHECK(std::system(("groff -man -ww -Tascii -z " + file + " 2>" + warnings.path()).c_str()) ==
          0);
    CHECK(read(warnings.path()).empty());
  }
  CHECK(pages > 15);
  CHECK(program.find("stepcast\\-trace") != std::string::npos);
  std::filesystem::remove_all(folder);
  CHECK(run("man simulat").code == 2);
  CHECK(run("man --output /dev/null/x").code == 2);
}

TEST_CASE("doctor says what is there and what is not, and is never an error") {
  const Output text = run("doctor");
  CHECK(text.code == 0);
  CHECK(text.out.find("SimGrid") != std::string::npos);
  const Output none = run("doctor --json", "env PATH=/nowhere STEPCAST_MPI_PLUGIN=/nowhere/x.so ");
  REQUIRE(none.code == 0);
  const nlohmann::json j = nlohmann::json::parse(none.out);
  int missing = 0, parts = 0;
  for (const auto& each : j.at("findings")) {
    const std::string what = each.at("what");
    if (what == "npm") CHECK(each.at("found") == false);  // PATH leads nowhere
    if (what == "SQLite") CHECK(each.at("found") == true);
    parts += what == "npm" || what == "SQLite" || what == "report page" ? 1 : 0;
    if (what == "MPI plugin" || what == "mpirun") {
      CHECK(each.at("found") == false);
      CHECK(each.at("brought_by").get<std::string>().find("apt install") == 0);
      ++missing;
    }
  }
  CHECK(missing == 2);
  CHECK(parts == 3);
  // What would run on GPUs is named either way: what is there, or what lacks of plugin and GPU.
  CHECK((text.out.find("CUDA plugin") != std::string::npos ||
         text.out.find("GPU           no GPU") != std::string::npos));
  CHECK(run("doctor extra").code == 2);
}
