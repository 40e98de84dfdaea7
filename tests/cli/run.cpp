#include "tests/cli/run.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stepcast::test {

namespace {

int next_file = 0;

std::string fresh_path(const std::string& suffix) {
  return "/tmp/stepcast-test-" + std::to_string(getpid()) + "-" + std::to_string(next_file++) +
         suffix;
}

}  // namespace

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int count_lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

Output run(const std::string& arguments, const std::string& before) {
  const std::string out = fresh_path(".out"), err = fresh_path(".err");
  const std::string command = std::string("cd '") + STEPCAST_SOURCE_DIR + "' && " + before + "'" +
                              STEPCAST_PROGRAM + "' " + arguments + " >" + out + " 2>" + err +
                              " </dev/null";
  const int status = std::system(command.c_str());
  Output result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
  std::remove(out.c_str());
  std::remove(err.c_str());
  return result;
}

nlohmann::json json_of(const std::string& arguments) {
  const Output o = run(arguments + " --json");
  CAPTURE(arguments);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  return nlohmann::json::parse(o.out);
}

TemporaryFile::TemporaryFile(const std::string& suffix, const std::string& text)
    : path_(fresh_path(suffix)) {
  std::ofstream(path_, std::ios::binary) << text;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace stepcast::test
