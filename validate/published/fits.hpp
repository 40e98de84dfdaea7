#pragma once
// What each software profile of a source rests on: how many factors a fit was free to move, and on
// how many rows. data/fits.toml says the factors; rows are counted. Many factors on few rows are
// interpolation, so the ledger prints both beside every source.
// Tested by tests/unit/validate/source_test.cpp.

#include <string>
#include <vector>

#include "validate/published/source.hpp"

namespace stepcast {

struct ProfileRest {
  std::string profile;
  std::vector<std::string> machines;    // of the rows under it
  std::vector<std::string> factors;     // that a fit may move; none: nothing is fitted
  std::vector<std::string> determined;  // those that its rows could tell (SoftwareProfile::fitted)
  int fitted_rows = 0;                  // of this source
  int checked_rows = 0;
};

// In the order in which the source's rows name them.
std::vector<ProfileRest> rests_of(const PublishedSource& source);

// "composer-torch1: 6 factors on 71 rows, 4 determined; 35 rows checked"
std::string words(const ProfileRest& rest);

}  // namespace stepcast
