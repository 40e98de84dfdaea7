#pragma once
// A JSON document as it is printed.

#include <nlohmann/json.hpp>
#include <string>

namespace stepcast::cli {

// Names of files need not be UTF-8: what is not is replaced.
std::string json_text(const nlohmann::ordered_json& document);
std::string json_line(const nlohmann::ordered_json& document);  // without line breaks

}  // namespace stepcast::cli
