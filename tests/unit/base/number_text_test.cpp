#include "base/number_text.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

using namespace stepcast;

TEST_CASE("numbers in messages are what a person would type") {
  CHECK(number_text(0) == "0");
  CHECK(number_text(-5) == "-5");
  CHECK(number_text(1'000'000) == "1000000");
  CHECK(number_text(16'777'216) == "16777216");  // not 1.67772e+07
  CHECK(number_text(1e9) == "1e9");
  CHECK(number_text(2.5e9) == "2.5e9");
  CHECK(number_text(2'048'000'000) == "2048000000");
  CHECK(number_text(1e20) == "1e20");
  CHECK(number_text(9e18) == "9e18");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(1e-6) == "1e-6");
  CHECK(number_text(0.001) == "0.001");
  CHECK(number_text(1e99) == "1e99");
  CHECK(number_text(std::nan("")) == "nan");
  CHECK(number_text(-std::numeric_limits<double>::infinity()) == "-inf");
}

TEST_CASE("a number in a message reads back as the same number") {
  for (double value = 1.0 / 3; value < 1e22; value *= 7.3) {
    for (const double v : {value, -value, std::floor(value), 1 / value}) {
      CHECK(std::strtod(number_text(v).c_str(), nullptr) == v);
    }
  }
}
