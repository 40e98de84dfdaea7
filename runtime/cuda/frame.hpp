#pragma once
// TCP with whole messages: a kind, a number and bytes; and plain values in bytes.
//
// A Connection reads and writes whole frames from blocking sockets, with deadlines; writing is
// allowed from several threads.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "base/error.hpp"
#include "base/units.hpp"

namespace stepcast::runtime {

struct Frame {
  std::uint32_t kind = 0;
  std::uint32_t number = 0;
  std::string bytes;
};

class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // False when the other side is gone.
  bool send(const Frame& frame);
  // Nothing when the other side is gone, or has sent what is no frame.
  std::optional<Frame> receive();
  // Whether something has come, or the end of the connection, within so long.
  bool readable(Seconds within);
  // A receive in another thread returns.
  void shut();

 private:
  int descriptor_;
  std::mutex writing_;
};

// A port that is listened on; 0 takes a free one.
class Listener {
 public:
  explicit Listener(int port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }
  // A new connection's descriptor; below zero after shut().
  int accept();
  void shut();

 private:
  int descriptor_ = -1;
  int port_ = 0;
};

// Tries again until the time is over; below zero then.
int connect_to(const std::string& address, int port, Seconds within);

// ---- Values in bytes, between programs built from one tree --------------------------------------
template <typename T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
inline void put(std::string& bytes, const std::string& text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    need(sizeof(T));
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string text() {
    const auto size = get<std::uint64_t>();
    need(size);
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  bool over() const { return at_ == bytes_.size(); }

 private:
  void need(std::uint64_t size) const {
    if (size > bytes_.size() - at_)
      throw std::runtime_error("a message of another rank is cut short");
  }
  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace stepcast::runtime
