#pragma once
// The knobs of tune() and their values. Internal to sim/sweep.

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/resolve.hpp"
#include "sim/sweep/tune.hpp"

namespace stepcast {

// What the search stands on: the scenario without its knobs, and their values.
class Knobs {
 public:
  Knobs(const Scenario& given, const TuneOptions& options);

  // All combinations that make sense together, each once.
  std::vector<Scenario> combinations() const;
  // The best with another value of one knob; micro-batch and accumulation move together. Nothing
  // where the two cannot go together.
  std::optional<Scenario> with(const Scenario& s, const std::string& key,
                               const std::string& value) const;
  // The scenario with micro-batch and accumulation as the global batch asks for; nothing where they
  // do not make it up.
  std::optional<Scenario> at_global_batch(const Scenario& s) const;
  // Values of a knob that is a choice; none: it is kept, or the strategy has not got it.
  std::vector<std::string> values(const std::string& key, const Scenario& s) const;
  bool kept(const std::string& key) const;

  // The bucket that this strategy has, in the key's own unit (MiB or elements); none: it has none,
  // or it is kept.
  struct Size {
    std::string key;
    double unit = 1;                 // of the key in MiB
    double low = 0.25, high = 1024;  // MiB
  };
  std::optional<Size> size_of(const Scenario& s) const;

  // What the scenario means without this key: PyTorch's or DeepSpeed's default, as text.
  std::string by_default(const std::string& key, const Scenario& s) const;

  int world_size() const { return world_; }

 private:
  std::optional<Scenario> finished(Scenario s) const;

  Scenario given_, base_;
  TuneOptions options_;
  std::vector<std::string> strategies_;
  int world_ = 1, node_ = 1;
};

}  // namespace stepcast
