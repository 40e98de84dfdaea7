#pragma once
// What `stepcast serve` answers, without HTTP: a question is a name ("simulate") and keys of a
// scenario with their values, as the network sent them; the answer is a status, a type and a body.
// Runs in a worker process (serve_workers.hpp).
//
// Nothing that the network says reaches the file system: only the keys listed in serve_answers.cpp
// are taken, and of those that could be a path (model, cluster, profile) only names of the catalog.
// Tested by tests/page/serve_test.cpp.

#include <string>
#include <utility>
#include <vector>

namespace stepcast::cli {

struct Question {
  std::string what;  // one of questions()
  std::vector<std::pair<std::string, std::string>> keys;
};

struct Answer {
  int status = 200;  // of HTTP
  std::string type = "application/json";
  std::string body;  // an error: {"error": "one sentence"}
};

const std::vector<std::string>& questions();
Answer answer(const Question& question);
Answer refusal(int status, const std::string& sentence);

// What the page's form offers: models, machines, profiles, precisions, limits and defaults. JSON.
std::string serve_options();

// Reads what a later question needs, so that processes forked from here have it.
void warm_up();

}  // namespace stepcast::cli
