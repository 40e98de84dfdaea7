#include "sim/interop/gzip_stream.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

class GzipStream::Buffer : public std::streambuf {
 public:
  explicit Buffer(const std::string& path) : bytes_(256 << 10) {
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
    const int count = gzread(file_, bytes_.data(), static_cast<unsigned>(bytes_.size()));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (count < 0 || code == Z_BUF_ERROR) {
      failure_ = code == Z_BUF_ERROR ? "is cut off" : std::string("cannot be unpacked: ") + text;
    }
    if (count <= 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::vector<char> bytes_;
  gzFile file_ = nullptr;
  std::string failure_;
};

GzipStream::GzipStream(const std::string& path)
    : std::istream(nullptr), buffer_(std::make_unique<Buffer>(path)) {
  rdbuf(buffer_.get());
}

GzipStream::~GzipStream() = default;

const std::string& GzipStream::failure() const { return buffer_->failure(); }

}  // namespace stepcast
