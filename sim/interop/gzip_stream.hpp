#pragma once
// A JSON file as a stream, unpacked on the way when it is gzip; 256 KiB of it are in memory at a
// time. What would not end well ends here:
//
//   - a text or number of more than 64 MiB, which a parser would gather in memory;
//   - gzip that has unpacked to more than 300 times what was read of it, from 4 MiB on (traces
//   reach
//     30, deflate 1,032): a bomb, found after 13 KiB of it;
//   - more than 64 GiB of JSON: a device that never ends.
//
// Reading then stops, and failure() says why. Tested by tests/unit/interop/kineto_test.cpp.

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

// A text as a gzip file's bytes.
std::string gzipped(const std::string& text);

}  // namespace stepcast
