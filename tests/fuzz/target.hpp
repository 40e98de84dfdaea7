#pragma once
// What every fuzz target shares: a text is a value or an InputError of one line; anything else that
// leaves the reader (another exception, an assertion, a sanitizer's report) ends the process, which
// is how libFuzzer notices.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace stepcast::fuzz {

template <typename Read>
int run(const std::uint8_t* data, std::size_t size, Read&& read) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    read(text);
  } catch (const InputError& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}

}  // namespace stepcast::fuzz
