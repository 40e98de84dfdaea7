// YAML to Value: yaml-cpp's events, not its nodes, so that aliases are expanded under our limits
// and every value has its line.
//
// The parser itself recurses once a level; yaml-cpp 0.7 stops at 500 by itself, we stop at 64 at
// the first event beyond. Only one document is read: a second one is refused, because which one
// counts would be a guess.

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <set>
#include <sstream>

#include "base/tree.hpp"

namespace stepcast::tree {

namespace {

class Handler : public YAML::EventHandler {
 public:
  explicit Handler(const std::string& file) : file_(file), limits_(file) {}

  Value take_root() { return std::move(root_); }
  bool any() const { return any_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value;
    value.line = line_of(mark);
    add(std::move(value), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      throw InputError({.file = file_, .line = line_of(mark), .key = ""},
                       "an alias within its own anchor; accepted: one to a value before it");
    }
    limits_.count(line_of(mark), size_of(known->second));
    add(Value(known->second), 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool plain = tag == "?" || tag.empty();
    add(plain ? plain_scalar(text, line_of(mark)) : text_scalar(text, line_of(mark)), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Value::Kind::list, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Value::Kind::map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  // A table or list that is being read. Of a map, `key` is what the next value belongs to.
  struct Open {
    Value value;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    int key_line = 0;
    std::set<std::string> merged;  // keys that came by <<: and may be said once more
  };

  static int line_of(const YAML::Mark& mark) { return mark.line < 0 ? 0 : mark.line + 1; }
  static std::size_t size_of(const Value& value) {
    std::size_t n = 1;
    for (const Value& item : value.items) n += size_of(item);
    for (const auto& [key, entry] : value.entries) n += size_of(entry);
    return n;
  }

  void open(Value::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    limits_.enter(line_of(mark));
    Open opened;
    opened.value.kind = kind;
    opened.value.line = line_of(mark);
    opened.anchor = anchor;
    if (!open_.empty() && open_.back().value.is_map() && !open_.back().has_key) {
      throw InputError({.file = file_, .line = line_of(mark), .key = ""},
                       "a list or table as a key; accepted: a word");
    }
    open_.push_back(std::move(opened));
  }
  void close() {
    limits_.leave();
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(std::move(closed.value), closed.anchor);
  }

  void add(Value value, YAML::anchor_t anchor) {
    limits_.count(value.line);
    if (anchor != 0) anchors_[anchor] = value;
    any_ = true;
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& into = open_.back();
    if (!into.value.is_map()) {
      into.value.items.push_back(std::move(value));
      return;
    }
    if (!into.has_key) {
      into.has_key = true;
      into.key = value.is_scalar() ? value.text : "";
      into.key_line = value.line;
      return;
    }
    into.has_key = false;
    if (into.key == "<<") {
      merge(into, value);
      return;
    }
    if (const Value* there = into.value.find(into.key)) {
      if (into.merged.erase(into.key) == 0) {
        throw InputError({.file = file_, .line = into.key_line, .key = into.key.substr(0, 80)},
                         fmt::format("stands twice in one table, first on line {}; accepted: once",
                                     there->line));
      }
      for (auto& [key, entry] : into.value.entries) {
        if (key == into.key) entry = std::move(value);
      }
      return;
    }
    // The key's line, also for a value that begins below it.
    value.line = into.key_line;
    into.value.entries.push_back({into.key, std::move(value)});
  }

  // <<: *defaults. What the table says itself wins, wherever it says it.
  void merge(Open& into, const Value& from) {
    if (from.kind == Value::Kind::list) {
      for (const Value& item : from.items) merge(into, item);
      return;
    }
    for (const auto& [key, value] : from.entries) {
      if (into.value.find(key) != nullptr) continue;
      limits_.count(value.line, size_of(value));
      into.value.entries.push_back({key, value});
      into.merged.insert(key);
    }
  }

  const std::string& file_;
  Limits limits_;
  Value root_;
  bool any_ = false;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
};

std::string line_text(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string there;
  for (int i = 0; i < line && std::getline(lines, there); ++i) {
  }
  return there;
}

}  // namespace

Value parse_yaml(const std::string& text, const std::string& file) {
  Handler handler(file);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(handler);
    Value root = handler.take_root();
    Handler second(file);
    if (parser.HandleNextDocument(second) && second.any() && !second.take_root().is_null()) {
      throw InputError({.file = file, .line = 0, .key = ""},
                       "holds more than one YAML document; accepted: one");
    }
    return root;
  } catch (const YAML::Exception& error) {
    const int line = error.mark.line < 0 ? 0 : error.mark.line + 1;
    const std::string there = line_text(text, line);
    const bool template_line = there.find("TODO") != std::string::npos ||
                               there.find("{{") != std::string::npos ||
                               there.find("${") != std::string::npos;
    throw InputError({.file = file, .line = line, .key = ""},
                     template_line ? fmt::format("'{}' is a placeholder that somebody must fill in",
                                                 there.substr(0, 80))
                                   : fmt::format("not valid YAML: {}", error.msg.substr(0, 200)));
  }
}

}  // namespace stepcast::tree
