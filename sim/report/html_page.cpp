#include "sim/report/html_page.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"

namespace stepcast {

namespace {

// Where the document goes; page/index.html has it.
constexpr std::string_view place = "{\"kind\":\"none\"}";
constexpr std::size_t large = 1'000'000;  // bytes of JSON from which it is compressed

std::string_view bundle() {
  for (const embedded::File& file : embedded::report()) {
    if (file.name == "page.html") return file.text;
  }
  return {};
}

std::string base64(std::string_view bytes) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      three = three << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += at + i > bytes.size() ? '=' : digits[three >> (18 - 6 * i) & 63];
    }
  }
  return out;
}

// In zlib's format, which browsers undo (DecompressionStream, "deflate").
std::string deflated(std::string_view text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string out(size, '\0');
  const int failed = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(text.data()),
                               static_cast<uLong>(text.size()), Z_BEST_COMPRESSION);
  STEPCAST_ASSERT(failed == Z_OK, "zlib has room for what it says");
  out.resize(size);
  return out;
}

}  // namespace

bool html_page_available() { return !bundle().empty(); }

void check_report(std::string_view flag, const std::string& file) {
  const auto refuse = [&](const std::string& why) {
    throw InputError({.file = std::string(flag), .line = 0, .key = ""}, why);
  };
  if (!html_page_available()) {
    refuse(
        "HTML is off: this stepcast was built without npm's packages; accepted: a build by `./dev "
        "demo` where npm and a network are");
  }
  namespace fs = std::filesystem;
  std::error_code error;
  if (file.empty()) refuse("'' is not accepted; accepted: a file");
  if (fs::is_directory(file, error)) {
    refuse(fmt::format("'{}' is a directory; accepted: a file", file));
  }
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : ".";
  if (!fs::is_directory(folder, error)) {
    refuse(fmt::format("'{}': there is no folder '{}'", file, folder.string()));
  }
  if (::access(folder.c_str(), W_OK) != 0 && ::access(file.c_str(), W_OK) != 0) {
    refuse(fmt::format("'{}' cannot be written: {}", file, std::strerror(errno)));
  }
}

std::string json_in_html(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t at = 0; at < json.size(); ++at) {
    const std::string_view rest = json.substr(at);
    if (rest.front() == '<') {
      out += "\\u003c";
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      out += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += rest.front();
    }
  }
  return out;
}

std::string html_page(std::string_view kind, std::string_view json) {
  if (!html_page_available()) throw InputError("HTML is off: built without npm's packages");
  const std::string_view page = bundle();
  const std::size_t at = page.find(place);
  STEPCAST_ASSERT(at != std::string_view::npos, "the page has a place for its document");
  std::string out;
  out.reserve(page.size() + json.size() + 100);
  out += page.substr(0, at);
  const std::string head = fmt::format(R"({{"kind":"{}","version":"{}",)", kind, version());
  if (json.size() <= large) {
    out += json_in_html(fmt::format(R"({}"document":{}}})", head, json));
  } else {
    out += fmt::format(R"({}"deflated":"{}"}})", head, base64(deflated(json)));
  }
  out += page.substr(at + place.size());
  return out;
}

void write_report(const std::string& file, std::string_view kind, std::string_view json) {
  write_file(file, html_page(kind, json));
}

}  // namespace stepcast
