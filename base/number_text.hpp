#pragma once
// A number in a message, as a person would type it: never 1.67772e+07.
//
//   number_text(16777216)  "16777216"     integers in full
//   number_text(1e9)       "1e9"          but for round ones that would be a row of zeros
//   number_text(2048e6)    "2048000000"
//   number_text(0.000001)  "1e-6"
//   number_text(0.1)       "0.1"          all digits that tell it from its neighbours
//
// What it says reads back as the same number. Tested by tests/unit/base/number_text_test.cpp.

#include <string>

namespace stepcast {

std::string number_text(double value);

}  // namespace stepcast
