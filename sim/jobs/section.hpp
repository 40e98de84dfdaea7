#pragma once
// One table of a job file, read so that no key is passed over in silence: a key is taken, declared
// irrelevant, or found unknown when the section closes.
//
//   Section zero(*root.find("zero_optimization"), "zero_optimization", job);
//   if (auto stage = zero.integer({"stage"}, 0, 3)) ...           // stage->value, stage->source
//   zero.irrelevant({"load_from_fp32_weights", "stage3_gather_*"});
//   zero.close();                                                 // the rest is job.unknown
//
// Several names are aliases of one key: what old and new versions call it. Two of them that say
// different things are refused. Values are read leniently where the frameworks are lenient (5e8 for
// a whole number, "true" for true) and refused with file, line and key where they mean nothing.

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/jobs/job.hpp"

namespace stepcast::jobs {

class Section {
 public:
  using Names = std::initializer_list<const char*>;

  // `map` must be a table; `path` is its dotted place, "" at the root.
  Section(const Value& map, std::string path, Job& job);

  bool has(Names names) const;      // present and not null
  bool is_auto(Names names) const;  // "auto"
  const Value* peek(const char* name) const;
  void ignore_case_of_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  // Each takes the key. Absent, null and "auto" are nothing; "auto" stays taken.
  const Value* take(Names names);
  std::optional<Fact<std::int64_t>> integer(Names names, double least, double most);
  std::optional<Fact<double>> number(Names names, double least, double most);
  std::optional<Fact<bool>> boolean(Names names);
  std::optional<Fact<std::string>> word(Names names);  // scalars, as text
  std::vector<std::string> words(Names names);         // a list, or text cut at blanks and commas
  std::optional<Section> section(Names names);         // a table; {} and null: nothing

  Source source(Names names) const;  // of the key that is present
  Where where(std::string_view key) const;
  const std::string& path() const { return path_; }
  Job& job() const { return *job_; }

  // Keys that change nothing in a step; one * stands for anything: "stage3_gather_*".
  void irrelevant(Names names);
  void irrelevant(const std::vector<std::string>& names);
  // Keys that are known, for suggestions, and were not taken by anybody.
  void known(Names names);
  // The rest is unknown.
  void close();

  // Unsupported where the key says `true` (or a table whose "enabled" does).
  void refuse_true(Names names, const std::string& sentence, bool strategy = false);
  // Unsupported where the key is there at all and not null, false, 0 or empty.
  void refuse_any(Names names, const std::string& sentence, bool strategy = false);

 private:
  const Entry* find(Names names) const;   // names of one key, which must agree
  const Entry* first(Names names) const;  // any of these keys
  bool same_name(std::string_view there, std::string_view asked) const;

  const Value* map_;
  std::string path_;
  Job* job_;
  std::string prefix_;  // a key may stand with it or without
  std::set<std::string> taken_;
  std::vector<std::string> known_;
};

// `value` of `key`, one of `accepted`, whatever its case. Throws InputError.
std::string choice(const Fact<std::string>& fact, const std::vector<std::string>& accepted);

// Whether a scalar says true: true, "true", "yes", 1. Throws InputError for what is neither.
bool truth(const Value& value, const Where& where);

}  // namespace stepcast::jobs
