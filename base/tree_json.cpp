// JSON to Value, with lines: nlohmann's SAX parser over an iterator that counts line ends.

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/tree.hpp"

namespace stepcast::tree {

namespace {

// Reads characters and remembers the line of the last one that was not a line end: the parser looks
// one character ahead, and after a number that may be the end of its line.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct State {
    int line = 1;      // of the character that is read next
    int previous = 1;  // of the one read last
  };

  CountingIterator(const char* at, State* state) : at_(at), state_(state) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    state_->previous = state_->line;
    if (*at_ == '\n') ++state_->line;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  State* state_;
};

class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(const std::string& text, const std::string& file, const CountingIterator::State& state)
      : text_(text), file_(file), state_(state), limits_(file) {}

  Value take_root() { return std::move(root_); }

  bool null() override { return add(Value{}); }
  bool boolean(bool value) override {
    Value v;
    v.kind = Value::Kind::boolean;
    v.boolean = value;
    v.text = value ? "true" : "false";
    return add(std::move(v));
  }
  bool number_integer(number_integer_t value) override {
    Value v;
    v.kind = Value::Kind::integer;
    v.integer = value;
    v.number = static_cast<double>(value);
    v.text = std::to_string(value);
    return add(std::move(v));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return number_float(static_cast<double>(value), std::to_string(value));
    }
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    Value v;
    v.kind = Value::Kind::number;
    v.number = value;
    v.text = written;
    return add(std::move(v));
  }
  bool string(string_t& value) override { return add(text_scalar(std::move(value), 0)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Value::Kind::map); }
  bool start_array(std::size_t) override { return open(Value::Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->find(name) != nullptr) {
      throw InputError({.file = file_, .line = state_.previous, .key = name.substr(0, 80)},
                       "stands twice in one object; accepted: once");
    }
    key_ = std::move(name);
    key_line_ = state_.previous;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& last,
                   const nlohmann::json::exception&) override {
    const Where where{.file = file_, .line = state_.previous, .key = ""};
    const std::string word = word_at(position);
    const bool upper =
        word.size() > 2 &&
        word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == std::string::npos &&
        word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 0;
    if (upper || is_placeholder(word)) {
      throw InputError(where, fmt::format("{} is a placeholder that a script fills in; accepted: "
                                          "the file as the script leaves it",
                                          word.substr(0, 60)));
    }
    if (position >= text_.size()) throw InputError(where, "not valid JSON: it ends too early");
    throw InputError(where, fmt::format("not valid JSON at '{}'",
                                        shown(text_scalar(word.empty() ? last : word, 0))));
  }

 private:
  // The bare word around an offset.
  std::string word_at(std::size_t position) const {
    const char* ends = " \t\r\n,:\"";
    std::size_t at = std::min(position, text_.size());
    while (at > 0 && std::string_view(ends).find(text_[at - 1]) == std::string_view::npos) --at;
    const std::size_t end = std::min(text_.find_first_of(ends, at), text_.size());
    return text_.substr(at, std::min<std::size_t>(end - at, 80));
  }

  bool add(Value value) {
    put(std::move(value));
    return true;
  }
  Value& put(Value value) {
    value.line = open_.empty() || !open_.back()->is_map() ? state_.previous : key_line_;
    limits_.count(value.line);
    if (open_.empty()) {
      root_ = std::move(value);
      return root_;
    }
    Value& into = *open_.back();
    if (!into.is_map()) return into.items.emplace_back(std::move(value));
    into.entries.push_back({std::move(key_), std::move(value)});
    return into.entries.back().value;
  }
  bool open(Value::Kind kind) {
    Value value;
    value.kind = kind;
    limits_.enter(state_.previous);
    open_.push_back(&put(std::move(value)));
    return true;
  }
  bool close() {
    limits_.leave();
    open_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::string& file_;
  const CountingIterator::State& state_;
  Limits limits_;
  Value root_;
  std::vector<Value*> open_;  // only the last of each level grows, so the addresses hold
  std::string key_;
  int key_line_ = 0;
};

}  // namespace

Value parse_json(const std::string& text, const std::string& file) {
  CountingIterator::State state;
  Handler handler(text, file, state);
  const char* begin = text.data();
  const char* end = begin + text.size();
  const bool read = nlohmann::json::sax_parse(CountingIterator(begin, &state),
                                              CountingIterator(end, &state), &handler);
  if (!read) {
    throw InputError({.file = file, .line = state.previous, .key = ""}, "not valid JSON");
  }
  return handler.take_root();
}

}  // namespace stepcast::tree
