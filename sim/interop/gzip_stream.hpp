#pragma once
// A file as a stream, unpacked on the way when it is gzip; 256 KiB of it are in memory at a time.
// Tested by tests/unit/interop/kineto_test.cpp.

#include <istream>
#include <memory>
#include <streambuf>
#include <string>

namespace stepcast {

class GzipStream : public std::istream {
 public:
  // Throws InputError when it cannot be opened.
  explicit GzipStream(const std::string& path);
  ~GzipStream() override;
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Why reading ended before the end of the file; empty where it did not.
  const std::string& failure() const;

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace stepcast
