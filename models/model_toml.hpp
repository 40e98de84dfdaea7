#pragma once
// A model as TOML, the catalog's schema (docs/models.md), written and read: what
// `stepcast import model -o` writes and `--model FILE.toml` takes. A model that is put together
// from parts has [[block]] tables, one a kind, and [[layer]] tables in the order in which layers
// run.
//
// Tested by tests/unit/models/model_toml_test.cpp: what is written reads back as the same model.

#include <string>

#include "base/toml.hpp"
#include "models/model.hpp"

namespace stepcast {

// Everything but a ResNet's or a list of tensors.
std::string model_toml(const Model& model);

// A model from its TOML.
Model model_from_toml_text(const std::string& text, const std::string& file);

// [[block]] and [[layer]]; checks what complete() cannot name by line.
std::shared_ptr<const Composition> read_composition(TomlTable& toml);

}  // namespace stepcast
