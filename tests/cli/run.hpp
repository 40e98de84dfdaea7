#pragma once
// Runs the program as a user does, through a shell, in the root of the source tree.

#include <nlohmann/json.hpp>
#include <string>

namespace stepcast::test {

struct Output {
  int code = -1;  // exit code; -1: ended by a signal
  std::string out;
  std::string err;
};

// `arguments` as one would type them after "stepcast", `before` in front of it ("env NAME=VALUE ").
Output run(const std::string& arguments, const std::string& before = "");

// What the program prints with --json; the test fails where it does not end well.
nlohmann::json json_of(const std::string& arguments);

// A file that is gone when the test ends.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& suffix, const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read(const std::string& path);
int count_lines(const std::string& text);

}  // namespace stepcast::test
