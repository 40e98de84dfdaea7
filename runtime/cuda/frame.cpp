#include "runtime/cuda/frame.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace stepcast::runtime {
namespace {

constexpr std::uint64_t largest_frame = 1u << 30;

struct Header {
  std::uint32_t kind = 0;
  std::uint32_t number = 0;
  std::uint64_t size = 0;
};

bool send_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(descriptor, data, size, MSG_NOSIGNAL);
    if (sent <= 0) {
      if (sent < 0 && errno == EINTR) continue;
      return false;
    }
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int descriptor, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(descriptor, data, size, 0);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      return false;
    }
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void set_up(int descriptor) {
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  // Who does not read for so long is as good as gone.
  const timeval patience{10, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

}  // namespace

Connection::~Connection() { ::close(descriptor_); }

void Connection::shut() { ::shutdown(descriptor_, SHUT_RDWR); }

bool Connection::send(const Frame& frame) {
  const Header header{frame.kind, frame.number, frame.bytes.size()};
  const std::lock_guard<std::mutex> lock(writing_);
  return send_all(descriptor_, reinterpret_cast<const char*>(&header), sizeof(header)) &&
         send_all(descriptor_, frame.bytes.data(), frame.bytes.size());
}

std::optional<Frame> Connection::receive() {
  Header header;
  if (!receive_all(descriptor_, reinterpret_cast<char*>(&header), sizeof(header))) return {};
  if (header.size > largest_frame) return {};
  Frame frame{header.kind, header.number, std::string(header.size, '\0')};
  if (!receive_all(descriptor_, frame.bytes.data(), frame.bytes.size())) return {};
  return frame;
}

bool Connection::readable(Seconds within) {
  pollfd asked{descriptor_, POLLIN, 0};
  return ::poll(&asked, 1, static_cast<int>(within * 1e3)) > 0;
}

Listener::Listener(int port) {
  // One socket for both families, where the machine has IPv6.
  for (const int family : {AF_INET6, AF_INET}) {
    descriptor_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor_ < 0) continue;
    const int yes = 1;
    const int no = 0;
    setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_storage any{};
    socklen_t size = sizeof(sockaddr_in);
    any.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      setsockopt(descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
      size = sizeof(sockaddr_in6);
      reinterpret_cast<sockaddr_in6&>(any).sin6_port = htons(static_cast<std::uint16_t>(port));
    } else {
      reinterpret_cast<sockaddr_in&>(any).sin_port = htons(static_cast<std::uint16_t>(port));
    }
    if (::bind(descriptor_, reinterpret_cast<sockaddr*>(&any), size) == 0 &&
        ::listen(descriptor_, SOMAXCONN) == 0 &&
        ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&any), &size) == 0) {
      port_ = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(any).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(any).sin_port);
      return;
    }
    const int why = errno;
    ::close(descriptor_);
    descriptor_ = -1;
    if (why == EADDRINUSE) break;
  }
  throw InputError({.file = "environment", .line = 0, .key = "MASTER_PORT"},
                   "port " + std::to_string(port) +
                       " cannot be listened on (in use?); accepted: a free port, the same on all "
                       "ranks");
}

Listener::~Listener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Listener::shut() { ::shutdown(descriptor_, SHUT_RDWR); }

int Listener::accept() {
  for (;;) {
    const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0) {
      set_up(descriptor);
      return descriptor;
    }
    if (errno != EINTR && errno != ECONNABORTED) return -1;
  }
}

int connect_to(const std::string& address, int port, Seconds within) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(within));
  do {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) == 0) {
      int descriptor = -1;
      for (const addrinfo* at = found; at != nullptr && descriptor < 0; at = at->ai_next) {
        descriptor = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (descriptor >= 0 && ::connect(descriptor, at->ai_addr, at->ai_addrlen) != 0) {
          ::close(descriptor);
          descriptor = -1;
        }
      }
      freeaddrinfo(found);
      if (descriptor >= 0) {
        set_up(descriptor);
        return descriptor;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  return -1;
}

}  // namespace stepcast::runtime
