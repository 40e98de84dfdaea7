#pragma once
// Messages between the process that owns a sweep and its workers, over a stream socket: between
// parent and child a pair of sockets, between hosts TCP. A message is a length of four bytes and as
// many bytes; numbers lie as they do in memory (all hosts of a run have one byte order).
//
// Nothing is trusted: a length beyond the limit, or a message that is shorter than what it should
// hold, ends the connection. Tested by tests/unit/sweep/channel_test.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/outputs.hpp"

namespace stepcast {

class Channel {
 public:
  explicit Channel(int socket = -1) : socket_(socket) {}
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  int socket() const { return socket_; }
  bool open() const { return socket_ >= 0; }
  void close();

  // All of it, or false: the other side has gone.
  bool send(const std::string& message);
  // The next one, waiting for it; nothing: the other side has gone.
  std::optional<std::string> receive();
  // Takes in what has come, without waiting, and appends the messages that are complete. False: the
  // other side has gone (what came before is there all the same).
  bool take(std::vector<std::string>& messages);
  // What was read and is no message yet: for another process that goes on with this socket.
  std::string take_back() { return std::move(waiting_); }
  void put_back(std::string bytes) { waiting_ = std::move(bytes); }

 private:
  bool cut(std::vector<std::string>& messages);

  int socket_ = -1;
  std::string waiting_;  // the beginning of the next message
};

// Fields of a message one after the other.
class Writer {
 public:
  Writer& number(std::uint32_t value);
  Writer& real(double value);
  Writer& text(const std::string& value);
  std::string done() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  std::uint32_t number();
  double real();
  std::string text();
  bool good() const { return good_; }  // nothing was missing
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  bool take(void* to, std::size_t size);

  const std::string& bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

void write(Writer& writer, const Result& result);
Result read_result(Reader& reader);

}  // namespace stepcast
