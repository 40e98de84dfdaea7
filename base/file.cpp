#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/toml.hpp"

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

void write_file(const std::string& path, std::string_view text) {
  const std::string beside = path + ".tmp" + std::to_string(::getpid());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) {
      const std::string reason = std::strerror(errno);
      std::error_code ignored;
      std::filesystem::remove(beside, ignored);
      throw InputError({path, 0, ""}, "cannot be written: " + reason);
    }
  }
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw InputError({path, 0, ""}, "cannot be written: " + error.message());
  }
}

}  // namespace stepcast
