#include "sim/sweep/channel.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t longest_message = 16u << 20;
constexpr std::size_t header = sizeof(std::uint32_t);

}  // namespace

Channel::~Channel() { close(); }

Channel::Channel(Channel&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), waiting_(std::move(other.waiting_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    close();
    socket_ = std::exchange(other.socket_, -1);
    waiting_ = std::move(other.waiting_);
  }
  return *this;
}

void Channel::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool Channel::send(const std::string& message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string bytes(header, '\0');
  std::memcpy(bytes.data(), &size, header);
  bytes += message;
  for (std::size_t sent = 0; sent < bytes.size();) {
    // No signal when the other side has gone.
    const ssize_t n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> Channel::receive() {
  for (;;) {
    std::uint32_t size = 0;
    if (waiting_.size() >= header) std::memcpy(&size, waiting_.data(), header);
    if (size > longest_message) return std::nullopt;
    if (waiting_.size() >= header && waiting_.size() >= header + size) {
      std::string message = waiting_.substr(header, size);
      waiting_.erase(0, header + size);
      return message;
    }
    char block[65536];
    const ssize_t n = ::recv(socket_, block, sizeof block, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    waiting_.append(block, static_cast<std::size_t>(n));
  }
}

bool Channel::take(std::vector<std::string>& messages) {
  for (;;) {
    char block[65536];
    const ssize_t n = ::recv(socket_, block, sizeof block, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    const bool nothing_yet = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (nothing_yet) return cut(messages);
    if (n <= 0) {
      cut(messages);
      return false;
    }
    waiting_.append(block, static_cast<std::size_t>(n));
    if (!cut(messages)) return false;
  }
}

bool Channel::cut(std::vector<std::string>& messages) {
  std::size_t at = 0;
  while (waiting_.size() - at >= header) {
    std::uint32_t size = 0;
    std::memcpy(&size, waiting_.data() + at, header);
    if (size > longest_message) return false;
    if (waiting_.size() - at < header + size) break;
    messages.push_back(waiting_.substr(at + header, size));
    at += header + size;
  }
  waiting_.erase(0, at);
  return true;
}

Writer& Writer::number(std::uint32_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}
Writer& Writer::real(double value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}
Writer& Writer::text(const std::string& value) {
  number(static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

bool Reader::take(void* to, std::size_t size) {
  good_ = good_ && bytes_.size() - at_ >= size;
  if (!good_) return false;
  std::memcpy(to, bytes_.data() + at_, size);
  at_ += size;
  return true;
}
std::uint32_t Reader::number() {
  std::uint32_t value = 0;
  take(&value, sizeof value);
  return value;
}
double Reader::real() {
  double value = 0;
  take(&value, sizeof value);
  return value;
}
std::string Reader::text() {
  const std::size_t size = number();
  good_ = good_ && bytes_.size() - at_ >= size;
  if (!good_) return "";
  at_ += size;
  return bytes_.substr(at_ - size, size);
}

void write(Writer& writer, const Result& result) {
  writer.text(result.state).text(result.why).text(result.binding);
  for (const double number : result.numbers) writer.real(number);
}

Result read_result(Reader& reader) {
  Result result;
  result.state = reader.text();
  result.why = reader.text();
  result.binding = reader.text();
  for (double& number : result.numbers) number = reader.real();
  return result;
}

}  // namespace stepcast
