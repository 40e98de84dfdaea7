#include "topologies/importers/hostlist.hpp"

#include <fmt/format.h>

#include <charconv>

namespace stepcast {

namespace {

constexpr std::size_t most_hosts =
    65'536;  // as Slurm's own MAX_RANGE; a short text may name as many
constexpr std::size_t longest_name = 256;

class Expander {
 public:
  Expander(std::string_view text, const Where& where) : text_(text), where_(where) {}

  std::vector<std::string> run() {
    while (true) {
      one_expression();
      if (at_ == text_.size()) return std::move(hosts_);
      ++at_;  // the comma
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw InputError(where_, fmt::format("'{}' {}; accepted: names as gpu[01-16,20],login",
                                         text_.substr(0, 80), why));
  }

  // Up to a comma outside brackets.
  void one_expression() {
    std::vector<std::string> names = {""};
    while (at_ < text_.size() && text_[at_] != ',') {
      const char c = text_[at_];
      if (c == '[') {
        names = product(names, bracket());
        continue;
      }
      const auto byte = static_cast<unsigned char>(c);
      if (c == ']' || byte <= ' ' || byte == 0x7f) refuse("is no list of hosts");
      for (std::string& name : names) name += c;
      ++at_;
      if (names.front().size() > longest_name) refuse("has a name of more than 256 letters");
    }
    if (names.front().empty()) refuse("has an empty name");
    if (hosts_.size() + names.size() > most_hosts) refuse("is more than 65,536 hosts");
    hosts_.insert(hosts_.end(), names.begin(), names.end());
  }

  std::vector<std::string> product(const std::vector<std::string>& names,
                                   const std::vector<std::string>& numbers) const {
    if (names.size() * numbers.size() > most_hosts) refuse("is more than 65,536 hosts");
    std::vector<std::string> out;
    out.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) out.push_back(name + number);
    }
    return out;
  }

  std::string_view digits() {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == from) refuse("has no number where one belongs");
    if (at_ - from > 9) refuse("has a number of more than 9 digits");
    return text_.substr(from, at_ - from);
  }

  static std::int64_t value(std::string_view digits) {
    std::int64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
  }

  std::vector<std::string> bracket() {
    std::vector<std::string> numbers;
    ++at_;  // [
    while (true) {
      const std::string_view first = digits();
      std::int64_t last = value(first);
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        last = value(digits());
      }
      if (last < value(first)) refuse("has a range that falls");
      if (static_cast<std::size_t>(last - value(first)) >= most_hosts - numbers.size()) {
        refuse("is more than 65,536 hosts");
      }
      for (std::int64_t n = value(first); n <= last; ++n) {
        numbers.push_back(fmt::format("{:0{}}", n, first.size()));
      }
      if (at_ == text_.size()) refuse("has a bracket that is not closed");
      const char c = text_[at_++];
      if (c == ']') return numbers;
      if (c != ',') refuse("has something else than numbers in its brackets");
    }
  }

  std::string_view text_;
  const Where& where_;
  std::size_t at_ = 0;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, const Where& where) {
  return Expander(text, where).run();
}

}  // namespace stepcast
