#pragma once
// The catalogs and files that scenarios name, each read once. A file that changes while this lives
// is not read again: one sweep sees one state of things.

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "models/model.hpp"
#include "sim/calibration/calibration.hpp"
#include "sim/collectives/measured.hpp"
#include "sim/kernels/profile.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

class Sources {
 public:
  // By catalog name or path, as load_machine() and the others take them; they throw what those do.
  const Machine& machine(const std::string& name);
  const Model& model(const std::string& name, std::int64_t seq_len, std::int64_t image_size);
  const SoftwareProfile& profile(const std::string& name);
  std::shared_ptr<const MeasuredTable> measured(const std::string& path);
  const Calibration& calibration(const std::string& path);

 private:
  std::map<std::string, Machine> machines_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Model> models_;
  std::map<std::string, SoftwareProfile> profiles_;
  std::map<std::string, std::shared_ptr<const MeasuredTable>> measured_;
  std::map<std::string, Calibration> calibrations_;
};

}  // namespace stepcast
