#include "sim/forecast/sources.hpp"

namespace stepcast {
namespace {

template <typename Map, typename Read>
const typename Map::mapped_type& once(Map& map, const typename Map::key_type& key, Read&& read) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map.emplace(key, read()).first->second;  // what cannot be read is not kept
}

}  // namespace

const Machine& Sources::machine(const std::string& name) {
  return once(machines_, name, [&] { return load_machine(name); });
}

const Model& Sources::model(const std::string& name, std::int64_t seq_len,
                            std::int64_t image_size) {
  return once(models_, {name, seq_len, image_size},
              [&] { return load_model(name, seq_len, image_size); });
}

const SoftwareProfile& Sources::profile(const std::string& name) {
  return once(profiles_, name, [&] { return load_profile(name); });
}

std::shared_ptr<const MeasuredTable> Sources::measured(const std::string& path) {
  return once(measured_, path, [&] {
    return std::make_shared<const MeasuredTable>(MeasuredTable::from_file(path));
  });
}

const Calibration& Sources::calibration(const std::string& path) {
  return once(calibrations_, path, [&] { return read_calibration(path); });
}

}  // namespace stepcast
