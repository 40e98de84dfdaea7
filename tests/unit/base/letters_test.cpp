#include "base/letters.hpp"

#include <doctest/doctest.h>

namespace stepcast {

TEST_CASE("letters of ASCII are compared in any case, all other bytes as they are") {
  CHECK(lower(std::string_view("All-Reduce_8 [Z]@")) == "all-reduce_8 [z]@");
  CHECK(lower(std::string_view("\xc3\x84")) == "\xc3\x84");  // a capital A with two dots, UTF-8
  CHECK(same_letters("ll128", "LL128"));
  CHECK_FALSE(same_letters("LL", "LL128"));
  CHECK_FALSE(same_letters("@", "`"));  // 32 apart, as letters are
  CHECK(same_letters("", ""));
}

}  // namespace stepcast
