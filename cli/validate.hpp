#pragma once
// The part of `stepcast validate` that runs nothing here: published measurements.

#include "cli/command.hpp"

namespace stepcast::cli {

// --published: the accuracy ledger. Adds its options; true once they were chosen.
class ValidatePublished {
 public:
  explicit ValidatePublished(CLI::App& command);
  ValidatePublished(const ValidatePublished&) = delete;
  ValidatePublished& operator=(const ValidatePublished&) = delete;

  // Throws InputError where one of its other options stands alone.
  bool chosen() const;
  // `report`: where the ledger goes as a page, or empty.
  int run(bool json, const std::string& report) const;

 private:
  bool kernels_ = false;
  bool published_ = false, rows_ = false, check_ = false;
  std::string picture_, page_, record_;
};

}  // namespace stepcast::cli
