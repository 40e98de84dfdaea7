#pragma once
// A file that is being written beside its place: gone, too, where Ctrl-C or a scheduler's SIGTERM
// ends the program meanwhile. A trace of a large step takes seconds to write, and what is left
// would have a name that nobody looks for (trace.json.tmp4711).
//
//   remove_unfinished_on_signals();  // once, in main()
//   const Unfinished beside(path);   // while it is written
//
// One at a time. Commands that end tidily on a signal have handlers of their own, and write to the
// end. Tested by tests/unit/base/file_test.cpp.

#include <string>

namespace stepcast {

class Unfinished {
 public:
  explicit Unfinished(const std::string& path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
};

// SIGINT, SIGTERM and SIGHUP end the program as ever, after that. What is ignored stays ignored.
void remove_unfinished_on_signals();

}  // namespace stepcast
