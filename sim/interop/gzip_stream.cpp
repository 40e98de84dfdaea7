#include "sim/interop/gzip_stream.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

class GzipStream::Buffer : public std::streambuf {
 public:
  explicit Buffer(const std::string& path) : path_(path), bytes_(256 << 10) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      throw InputError({path, 0, ""}, "is a directory; accepted: a file");
    }
    file_ = gzopen(path.c_str(), "rb");  // reads plain files as they are
    if (file_ == nullptr) {
      throw InputError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
    }
    gzbuffer(file_, 128 << 10);
  }
  ~Buffer() override { gzclose(file_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::string& failure() const { return failure_; }

 protected:
  int_type underflow() override {
    if (!failure_.empty()) return traits_type::eof();
    const int count = gzread(file_, bytes_.data(), static_cast<unsigned>(bytes_.size()));
    int code = Z_OK;
    std::string text = gzerror(file_, &code);
    if (count < 0 || code == Z_BUF_ERROR) {
      // zlib puts the file's name before its own words.
      if (text.starts_with(path_ + ": ")) text = text.substr(path_.size() + 2);
      failure_ = code == Z_BUF_ERROR ? "is cut off" : "cannot be unpacked: " + text;
    }
    if (count <= 0) return traits_type::eof();
    watch(bytes_.data(), static_cast<std::size_t>(count));
    if (!failure_.empty()) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(*gptr());
  }

 private:
  static constexpr std::int64_t longest_token = 64ll << 20;
  static constexpr std::int64_t most_bytes = 64ll << 30;
  static constexpr std::int64_t ratio_from = 4ll << 20;
  static constexpr std::int64_t highest_ratio = 300;

  void watch(const char* bytes, std::size_t count) {
    unpacked_ += static_cast<std::int64_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const char c = bytes[i];
      if (in_text_) {
        ++token_;
        if (escaped_) {
          escaped_ = false;
        } else if (c == '\\') {
          escaped_ = true;
        } else if (c == '"') {
          in_text_ = false;
          token_ = 0;
        }
      } else if (c == '"') {
        in_text_ = true;
        token_ = 0;
      } else if (c == ',' || c == ':' || c == '\n' || c == ' ' || c == ']' || c == '}' ||
                 c == '[' || c == '{') {
        token_ = 0;
      } else {
        ++token_;
      }
    }
    if (token_ > longest_token) {
      failure_ = "has a text or number of more than 64 MiB; accepted: JSON with shorter ones";
    } else if (unpacked_ > most_bytes) {
      failure_ = "is larger than 64 GiB; accepted: a trace of fewer steps";
    } else if (unpacked_ > ratio_from && gzdirect(file_) == 0) {
      const auto packed = static_cast<std::int64_t>(gzoffset(file_));
      if (packed > 0 && unpacked_ / packed > highest_ratio) {
        failure_ = "unpacks to more than 300 times its size; accepted: gzip of a trace";
      }
    }
  }

  std::string path_;
  std::vector<char> bytes_;
  gzFile file_ = nullptr;
  std::string failure_;
  std::int64_t unpacked_ = 0;
  std::int64_t token_ = 0;  // bytes of the text, number or word that is open
  bool in_text_ = false, escaped_ = false;
};

GzipStream::GzipStream(const std::string& path)
    : std::istream(nullptr), buffer_(std::make_unique<Buffer>(path)) {
  rdbuf(buffer_.get());
}

GzipStream::~GzipStream() = default;

const std::string& GzipStream::failure() const { return buffer_->failure(); }

std::string gzipped(const std::string& text) {
  z_stream z{};
  constexpr int gzip_window = 15 + 16;
  constexpr int memory_level = 8;
  int status = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, memory_level,
                            Z_DEFAULT_STRATEGY);
  STEPCAST_ASSERT(status == Z_OK, "zlib cannot begin");
  std::string out;
  std::vector<unsigned char> part(256 << 10);
  std::size_t taken = 0;
  do {
    if (z.avail_in == 0 && taken < text.size()) {
      const std::size_t next = std::min<std::size_t>(text.size() - taken, 1 << 30);
      // zlib reads through a pointer that is not const.
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));  // NOLINT
      z.avail_in = static_cast<uInt>(next);
      taken += next;
    }
    z.next_out = part.data();
    z.avail_out = static_cast<uInt>(part.size());
    status = deflate(&z, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(reinterpret_cast<const char*>(part.data()), part.size() - z.avail_out);
  } while (status != Z_STREAM_END && status != Z_STREAM_ERROR);
  deflateEnd(&z);
  STEPCAST_ASSERT(status == Z_STREAM_END, "zlib cannot pack");
  return out;
}

}  // namespace stepcast
