#pragma once
// Catalog files compiled into the libraries, so that the binary needs nothing beside it.
// stepcast_library(NAME ... EMBED catalog/a.toml ...) defines stepcast::embedded::NAME().

#include <span>
#include <string_view>

namespace stepcast::embedded {

struct File {
  std::string_view name;  // "h100-sxm.toml"
  std::string_view text;
};

std::span<const File> models();
std::span<const File> topologies();
std::span<const File> kernels();          // software profiles
std::span<const File> collectives();      // NCCL constants by version, corrections
std::span<const File> published_calls();  // of collectives, with their machines
std::span<const File> report();           // the page, empty where it was built without npm
std::span<const File> published();        // measured steps of the accuracy ledger

}  // namespace stepcast::embedded
