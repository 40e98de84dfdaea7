#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/unfinished.hpp"

namespace stepcast {

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError({path, 0, ""}, "is a directory; accepted: a file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (static_cast<std::int64_t>(text.size()) > max_bytes) {
      throw InputError({path, 0, ""}, "is larger than " + std::to_string(max_bytes) +
                                          " bytes, the most that is read");
    }
  }
  if (in.bad())
    throw InputError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  return text;
}

namespace {

// A device, a pipe or a socket is written to; only a regular file can be replaced.
void write_through(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) {
    throw InputError({path, 0, ""}, std::string("cannot be written: ") + std::strerror(errno));
  }
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const std::string reason = std::strerror(errno);
      ::close(file);
      throw InputError({path, 0, ""}, "cannot be written: " + reason);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  ::close(file);
}

}  // namespace

void write_file(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);  // of what a link leads to
  if (fs::is_directory(status)) {
    throw InputError({path, 0, ""}, "cannot be written: is a directory; accepted: a file");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    write_through(path, text);
    return;
  }
  // Beside the file itself, not beside a link to it.
  const fs::path linked = fs::weakly_canonical(path, error);
  const std::string target = error ? path : linked.string();
  const std::string beside = target + ".tmp" + std::to_string(::getpid());
  const Unfinished unfinished(beside);
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) {
      const std::string reason = std::strerror(errno);
      std::error_code ignored;
      fs::remove(beside, ignored);
      throw InputError({path, 0, ""}, "cannot be written: " + reason);
    }
  }
  fs::rename(beside, target, error);
  if (error) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    throw InputError({path, 0, ""}, "cannot be written: " + error.message());
  }
}

}  // namespace stepcast
