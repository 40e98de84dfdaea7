#include "sim/interop/kineto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/letters.hpp"
#include "sim/interop/finite_text.hpp"
#include "sim/interop/gzip_stream.hpp"

namespace stepcast {

namespace {

constexpr int deepest = 512;
constexpr std::size_t most_inputs = 4096;   // of an op; what is beyond is left out
constexpr std::size_t most_devices = 1024;  // of a node

// Where in the document the parser is. Anything else is skipped by counting its brackets.
enum class Place : std::uint8_t {
  outside,      // before the first bracket
  root,         // the object around all
  events,       // its array traceEvents
  event,        // an object of it
  arguments,    // its "args"
  argument,     // an array in them; `inner_` brackets deep
  devices,      // deviceProperties
  device,       // an object of it
  distributed,  // distributedInfo
};

class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(std::string path, const std::function<void(const KinetoEvent&)>& on_event)
      : path_(std::move(path)), on_event_(on_event) {}

  KinetoInfo info;

  // ---- values
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    constexpr double most = 9e18;
    return number(value, std::abs(value) < most ? static_cast<std::int64_t>(value) : 0);
  }
  bool binary(binary_t& /*value*/) override { return true; }

  bool string(string_t& value) override {
    if (skipped_ > 0) return true;
    if (is_number_key() && quoted_number(value)) return true;
    switch (place_) {
      case Place::event:
        if (key_ == "ph") event_.phase = value;
        if (key_ == "cat") event_.category = lower(value);
        if (key_ == "name") event_.name = value;
        break;
      case Place::arguments:
        if (key_ == "Collective name") event_.collective = value;
        if (key_ == "dtype") event_.dtype = value;
        if (key_ == "Process Group Name") event_.group = value;
        if (key_ == "Process Group Ranks") event_.group_ranks = value;
        break;
      case Place::argument:
        if (inner_ == 1 && key_ == "Input type" && event_.input_types.size() < most_inputs) {
          event_.input_types.push_back(value);
        }
        break;
      case Place::device:
        if (key_ == "name") info.devices.back().name = value;
        break;
      case Place::distributed:
        if (key_ == "backend") info.backend = value;
        if (key_ == "nccl_version") info.nccl_version = value;
        break;
      default: break;
    }
    return true;
  }

  bool key(string_t& value) override {
    if (skipped_ == 0 && place_ != Place::argument) key_ = value;
    return true;
  }

  // ---- brackets
  bool start_object(std::size_t /*size*/) override { return open(true); }
  bool start_array(std::size_t /*size*/) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    const std::size_t colon = text.find("error at ");
    if (colon != std::string::npos) {
      text = text.substr(colon + 9);
    } else if (text.starts_with("[") && text.find("] ") != std::string::npos) {
      text = text.substr(text.find("] ") + 2);  // the library's name of the error
    }
    throw InputError({path_, 0, ""}, fmt::format("is no JSON at byte {}: {}", position, text));
  }

 private:
  // Keys whose numbers some writers put into quotes (trace converters and other tools that write
  // all of args as text).
  bool is_number_key() const {
    if (place_ == Place::event) {
      return key_ == "ts" || key_ == "dur" || key_ == "pid" || key_ == "tid";
    }
    if (place_ != Place::arguments) return false;
    for (const char* key : {"External id", "external id", "correlation", "stream", "device",
                            "Group size", "In msg nelems", "Out msg nelems"}) {
      if (key_ == key) return true;
    }
    return false;
  }

  // "pid": "Spans" is none.
  bool quoted_number(const std::string& text) {
    const char* const end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(text.data(), end, whole);
        read.ec == std::errc{} && read.ptr == end) {
      return number(static_cast<double>(whole), whole);
    }
    double value = 0;
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc{} || read.ptr != end || !std::isfinite(value)) return false;
    return number_float(value, text);
  }

  // What a count of this kind can be at most, and not below 0.
  static int small(std::int64_t whole) {
    return static_cast<int>(std::clamp<std::int64_t>(whole, 0, 100'000'000));
  }

  bool number(double value, std::int64_t whole) {
    if (skipped_ > 0) return true;
    switch (place_) {
      case Place::root:
        if (key_ == "cuda_driver_version" || key_ == "hip_driver_version") {
          info.driver = std::to_string(whole);
        }
        if (key_ == "cuda_runtime_version" || key_ == "hip_runtime_version") {
          info.runtime = std::to_string(whole);
        }
        break;
      case Place::event:
        if (key_ == "ts") event_.start_us = value;
        if (key_ == "dur") event_.duration_us = value;
        if (key_ == "pid") event_.pid = whole;
        if (key_ == "tid") event_.tid = whole;
        break;
      case Place::arguments:
        if (key_ == "External id" || key_ == "external id") event_.external_id = whole;
        if (key_ == "correlation") event_.correlation = whole;
        if (key_ == "stream") event_.stream = whole;
        if (key_ == "device") event_.device = whole;
        if (key_ == "Group size") event_.group_size = whole;
        if (key_ == "In msg nelems") event_.in_elements = whole;
        if (key_ == "Out msg nelems") event_.out_elements = whole;
        break;
      case Place::argument:
        if (key_ == "grid" && inner_ == 1 && items_ < 3) event_.grid[items_++] = whole;
        if (key_ == "Input Dims" && inner_ == 2 && event_.input_dims.back().size() < most_inputs) {
          event_.input_dims.back().push_back(whole);
        }
        break;
      case Place::device: {
        KinetoInfo::Device& device = info.devices.back();
        if (key_ == "totalGlobalMem") device.memory_bytes = whole;
        // In either order; said again, the last one counts.
        int& capability = device.compute_capability;
        if (key_ == "computeMajor") capability = 10 * std::min(small(whole), 999) + capability % 10;
        if (key_ == "computeMinor") capability += std::min(small(whole), 9) - capability % 10;
        if (key_ == "numSms") device.sm_count = small(whole);
        break;
      }
      case Place::distributed:
        if (key_ == "rank") info.rank = small(whole);
        if (key_ == "world_size") info.world_size = small(whole);
        break;
      default: break;
    }
    return true;
  }

  bool open(bool object) {
    if (++depth_ > deepest) {
      throw InputError({path_, 0, ""},
                       fmt::format("is nested deeper than {}; accepted: a trace of PyTorch's "
                                   "profiler, which needs 6",
                                   deepest));
    }
    if (skipped_ > 0) {
      ++skipped_;
      return true;
    }
    switch (place_) {
      case Place::outside: place_ = object ? Place::root : Place::events; return true;
      case Place::root:
        if (!object && key_ == "traceEvents") {
          place_ = Place::events;
        } else if (!object && key_ == "deviceProperties") {
          place_ = Place::devices;
        } else if (object && key_ == "distributedInfo") {
          place_ = Place::distributed;
        } else {
          skipped_ = 1;
        }
        return true;
      case Place::events:
        if (object) {
          place_ = Place::event;
          event_ = KinetoEvent{};
        } else {
          skipped_ = 1;
        }
        return true;
      case Place::event:
        if (object && key_ == "args") {
          place_ = Place::arguments;
        } else {
          skipped_ = 1;
        }
        return true;
      case Place::arguments:
        if (object) {
          skipped_ = 1;
        } else {
          place_ = Place::argument;
          inner_ = 1;
          items_ = 0;
        }
        return true;
      case Place::argument:
        if (object) {
          skipped_ = 1;
          return true;
        }
        ++inner_;
        if (key_ == "Input Dims" && inner_ == 2) {
          if (event_.input_dims.size() < most_inputs) {
            event_.input_dims.emplace_back();
          } else {
            event_.input_dims.back().clear();
          }
        }
        return true;
      case Place::devices:
        if (object && info.devices.size() < most_devices) {
          place_ = Place::device;
          info.devices.emplace_back();
        } else {
          skipped_ = 1;
        }
        return true;
      case Place::device:
      case Place::distributed: skipped_ = 1; return true;
    }
    return true;
  }

  bool close() {
    --depth_;
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    switch (place_) {
      case Place::outside:
      case Place::root:
      case Place::events:
      case Place::devices:
      case Place::distributed: place_ = Place::root; return true;
      case Place::event:
        place_ = Place::events;
        ++info.events;
        on_event_(event_);
        return true;
      case Place::arguments:
        place_ = Place::event;
        key_.clear();
        return true;
      case Place::argument:
        if (--inner_ == 0) place_ = Place::arguments;
        return true;
      case Place::device: place_ = Place::devices; return true;
    }
    return true;
  }

  std::string path_;
  const std::function<void(const KinetoEvent&)>& on_event_;
  KinetoEvent event_;
  std::string key_;
  Place place_ = Place::outside;
  int depth_ = 0;    // of all brackets
  int skipped_ = 0;  // open brackets of what is of no interest
  int inner_ = 0;
  std::size_t items_ = 0;
};

}  // namespace

KinetoInfo read_kineto(const std::string& path,
                       const std::function<void(const KinetoEvent&)>& on_event) {
  GzipStream stream(path);
  try {
    return read_kineto(stream, path, on_event);
  } catch (const InputError&) {
    // Where unpacking failed, the JSON ends early too: the first reason counts.
    if (!stream.failure().empty()) throw InputError({path, 0, ""}, stream.failure());
    throw;
  }
}

KinetoInfo read_kineto(std::istream& in, const std::string& name,
                       const std::function<void(const KinetoEvent&)>& on_event) {
  Handler handler(name, on_event);
  nlohmann::json::sax_parse(FiniteText(in), FiniteText(), &handler);
  if (handler.info.events == 0) {
    throw InputError({name, 0, "traceEvents"},
                     "has no events; accepted: a trace of PyTorch's profiler "
                     "(export_chrome_trace), JSON or gzip");
  }
  return std::move(handler.info);
}

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  std::string digits;
  for (const char c : text + "]") {
    if (c >= '0' && c <= '9' && digits.size() < 9) {
      digits += c;
    } else if (!digits.empty()) {
      ranks.push_back(std::stoi(digits));
      digits.clear();
    }
  }
  return ranks;
}

}  // namespace stepcast
