#pragma once
// stepcast import job: a verb of `stepcast import`.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.hpp"

namespace stepcast::cli {

// Adds the verb; where it is chosen, *run is what to do.
void add_import_job(CLI::App& parent, const std::shared_ptr<Run>& run);

}  // namespace stepcast::cli
