#include "cli/launch_hosts.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast::cli {
namespace {

const Where where{.file = "--hosts", .line = 0, .key = ""};

struct Host {
  std::string text;  // as given
  std::string name;
};

std::vector<Host> hosts_of(const std::string& list) {
  std::vector<Host> hosts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string text = list.substr(at, end - at);
    hosts.push_back({text, text.substr(0, text.find(':'))});
    at = end + 1;
  }
  return hosts;
}

// Empty where the name resolves; else why not.
std::string why_unknown(const std::string& name) {
  addrinfo* found = nullptr;
  const int code = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
  if (code != 0) return gai_strerror(code);
  freeaddrinfo(found);
  return {};
}

// What ssh connects to when it is told this name (~/.ssh/config); empty where there is no ssh. The
// name has passed check_hosts(): nothing in it is a shell's.
std::string as_ssh_takes(const std::string& name) {
  const std::string command = "ssh -G " + name + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(popen(command.c_str(), "r"), pclose);
  if (!answer) return {};
  std::array<char, 512> line{};
  while (fgets(line.data(), line.size(), answer.get()) != nullptr) {
    const std::string_view text(line.data());
    if (text.substr(0, 9) == "hostname ") {
      return std::string(text.substr(9, text.find('\n') - 9));
    }
  }
  return {};
}

}  // namespace

void check_hosts(const std::string& list, int ranks) {
  static constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  long slots = 0;
  for (const Host& host : hosts_of(list)) {
    long number = 1;
    if (host.name.size() < host.text.size()) {
      const char* first = host.text.data() + host.name.size() + 1;
      const char* end = host.text.data() + host.text.size();
      const auto [last, error] = std::from_chars(first, end, number);
      if (error != std::errc{} || last != end) number = 0;
    }
    if (host.name.empty() || host.name.front() == '-' || number < 1 || number > 256 ||
        host.name.find_first_not_of(letters) != std::string::npos) {
      throw InputError(where, fmt::format("'{}' is not accepted; accepted: names with slots from "
                                          "1, as a:2,b:2",
                                          host.text.substr(0, 80)));
    }
    slots += number;
  }
  if (slots < ranks) {
    throw InputError(where, fmt::format("has {} slots for {} ranks; accepted: at least a slot a "
                                        "rank, as a:2,b:2",
                                        slots, ranks));
  }
}

void check_hosts_are_known(const std::string& list) {
  for (const Host& host : hosts_of(list)) {
    const std::string why = why_unknown(host.name);
    if (why.empty()) continue;
    const std::string other = as_ssh_takes(host.name);
    if (!other.empty() && other != host.name && why_unknown(other).empty()) continue;
    throw InputError(where, fmt::format("no host '{}' is known here ({}); accepted: names or "
                                        "addresses that ssh reaches",
                                        host.name.substr(0, 80), why));
  }
}

bool names_domains(const std::string& list) {
  const std::vector<Host> hosts = hosts_of(list);
  return std::any_of(hosts.begin(), hosts.end(), [](const Host& host) {
    const bool address = host.name.find_first_not_of("0123456789.") == std::string::npos;
    return !address && host.name.find('.') != std::string::npos;
  });
}

}  // namespace stepcast::cli
