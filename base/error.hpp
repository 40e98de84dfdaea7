#pragma once
// The error policy, whole:
//   bad input        InputError        one line on stderr naming file, line, key, value and what
//                                      is accepted; exit 2
//   does not fit     InfeasibleError   one line with the smallest change that fits; exit 3
//   our own mistake  STEPCAST_ASSERT   exit 1, never reachable by input
// Nothing else is thrown on purpose. A library function that can meet bad input says so.

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Where a value was read. Leave out what is not known: a flag has no line.
struct Where {
  std::string file;  // path, or "--flag"
  int line = 0;      // 1-based; 0 is unknown
  std::string key;   // dotted path of the key
};

class InputError : public std::runtime_error {
 public:
  // what() becomes "FILE:LINE: KEY: MESSAGE".
  InputError(const Where& where, std::string_view message);
  explicit InputError(std::string_view message);
};

// "VALUE is not known; accepted: a, b, c (did you mean b?)" for the value of a key.
InputError not_accepted(const Where& where, std::string_view value,
                        const std::vector<std::string>& accepted);

// The closest of `candidates` to `word` by edit distance, or "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

class InfeasibleError : public std::runtime_error {
 public:
  explicit InfeasibleError(const std::string& message) : std::runtime_error(message) {}
};

// A broken invariant of our own. Throws std::logic_error so that tests can see it and main can
// exit 1 with the text.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line,
                                   const std::string& message);

}  // namespace stepcast

#define STEPCAST_ASSERT(expression, message)                                                     \
  do {                                                                                           \
    if (!(expression)) ::stepcast::assertion_failed(#expression, __FILE__, __LINE__, (message)); \
  } while (false)
