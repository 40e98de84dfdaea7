#include "cli/json_text.hpp"

namespace stepcast::cli {

namespace {

constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;

}  // namespace

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, replace) + "\n";
}

std::string json_line(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, replace);
}

}  // namespace stepcast::cli
