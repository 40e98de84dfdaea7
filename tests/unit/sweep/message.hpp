#pragma once
// What an action is refused with; "nothing" where it is not.

#include <string>

#include "base/error.hpp"

namespace stepcast::test {

template <typename Action>
std::string message(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace stepcast::test
