#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/unfinished.hpp"

namespace fs = std::filesystem;
using stepcast::InputError;
using stepcast::read_file;
using stepcast::write_file;

namespace {

// A folder of its own for each test case, gone after it.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("stepcast_file_test_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return (path / name).string(); }
};

}  // namespace

TEST_CASE("what is written is what is read") {
  const Folder folder;
  const std::string text("line\nzero \0 byte\r\n", 18);
  write_file(folder / "a", text);
  CHECK(read_file(folder / "a") == text);
  write_file(folder / "a", "");
  CHECK(read_file(folder / "a").empty());
}

TEST_CASE("writing leaves nothing but the file") {
  const Folder folder;
  write_file(folder / "a", "one");
  write_file(folder / "a", "two");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    names.push_back(entry.path().filename().string());
  }
  CHECK(names == std::vector<std::string>{"a"});
}

TEST_CASE("a signal ends the program, and with it the file that it was writing") {
  const Folder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = fork();
    if (child == 0) {
      ::signal(signal, SIG_DFL);  // doctest's
      stepcast::remove_unfinished_on_signals();
      write_file(folder / "whole", "text");
      std::ofstream(folder / "half") << "te";
      const stepcast::Unfinished half(folder / "half");
      raise(signal);
      _exit(9);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK_FALSE(fs::exists(folder / "half"));
    CHECK(read_file(folder / "whole") == "text");
  }
}

TEST_CASE("a file larger than the limit is refused, one of exactly the limit is read") {
  const Folder folder;
  write_file(folder / "a", std::string(100000, 'x'));
  CHECK(read_file(folder / "a", 100000).size() == 100000);
  CHECK_THROWS_WITH_AS(read_file(folder / "a", 99999),
                       (folder / "a: is larger than 99999 bytes, the most that is read").c_str(),
                       InputError);
}

TEST_CASE("a file that is not there is an input error that names it") {
  CHECK_THROWS_WITH_AS(read_file("/nonexistent/a.toml"),
                       "/nonexistent/a.toml: cannot be read: No such file or directory",
                       InputError);
}

TEST_CASE("a folder is not a file") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(read_file(folder.path.string()),
                       (folder.path.string() + ": is a directory; accepted: a file").c_str(),
                       InputError);
}

TEST_CASE("a file that cannot be written is an input error, and the old one stays") {
  const Folder folder;
  CHECK_THROWS_AS(write_file("/nonexistent/out.json", "x"), InputError);
  fs::create_directories(folder.path / "busy" / "inside");
  CHECK_THROWS_AS(write_file(folder / "busy", "x"), InputError);  // a folder has that name
  CHECK(fs::is_directory(folder.path / "busy" / "inside"));
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("a device or a link is written through, never replaced by a file") {
  // By links in a folder of the test's own: should the rule break, only the links are lost.
  const Folder folder;
  fs::create_symlink("/dev/full", folder / "full");
  CHECK_THROWS_AS(write_file(folder / "full", "x"), InputError);
  CHECK(fs::is_symlink(folder / "full"));
  write_file(folder / "a", "old and longer");
  fs::create_symlink(folder / "a", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "a") == "new");
}
