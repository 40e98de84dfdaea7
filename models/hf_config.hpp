#pragma once
// Reads the config.json of a Hugging Face model. Internal to models/; see model_from_hf_config.

#include <string>
#include <vector>

#include "models/model.hpp"

namespace stepcast {

Model model_from_hf_text(const std::string& text, const std::string& file,
                         const std::string& model_name, std::int64_t image_size = 0);
std::vector<std::string> hf_model_types();  // accepted values of model_type

}  // namespace stepcast
