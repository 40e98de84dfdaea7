#pragma once
// NCCL's environment variables that change what it chooses, and the rows of a tuner plugin's CSV.
//
//   Environment env;
//   env.set("NCCL_ALGO", "allreduce:ring,tree;allgather:^nvls", where);
//   env.set("NCCL_MAX_NCHANNELS", "8", where);
//
// Names may stand without "NCCL_". What changes times and is not modelled (NCCL_IB_HCA) is refused,
// so that nobody believes it was heeded; what changes none (NCCL_DEBUG) is noted
// (other_variables.hpp). Tested by tests/unit/collectives/environment_test.cpp.

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sim/collectives/nccl/system.hpp"
#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::nccl {

struct Environment {
  TunerSettings tuner;
  PathLimits paths;
  std::vector<std::string> unheeded;  // said, and no forecast depends on them

  // Throws InputError that names the variable and what is accepted.
  void set(const std::string& name, const std::string& value, const Where& where);
  // "NAME=VALUE NAME=VALUE ...", separated by blanks or line ends.
  void set_all(const std::string& text, const Where& where);
  // What was said in vain, in one line; "" where nothing was.
  std::string note() const;
};

// "ALGO" is "NCCL_ALGO".
std::string full_name(std::string name);
// "export NAME=VALUE -x NAME='VALUE' ...": names as they are said and their values, unchecked.
std::vector<std::pair<std::string, std::string>> read_variables(const std::string& text,
                                                                const Where& where);

// Rows of the CSV that NCCL's example tuner plugin reads (NCCL_TUNER_CONFIG_FILE):
//   collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,...]
// -1 is "any" or "as NCCL does". Lines that start with # and a header are skipped.
std::vector<TunerRow> parse_tuner_csv(const std::string& text, const std::string& file);

}  // namespace stepcast::nccl
