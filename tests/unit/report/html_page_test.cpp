#include "sim/report/html_page.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

using namespace stepcast;

TEST_CASE("nothing in a document can end the element that it stands in") {
  const std::string evil = R"({"name":"</script><script>alert(1)</script><!-- \u2028"})";
  const std::string safe = json_in_html(evil + "\xe2\x80\xa8\xe2\x80\xa9");
  CHECK(safe.find('<') == std::string::npos);
  CHECK(safe.find("\xe2\x80\xa8") == std::string::npos);
  CHECK(safe.ends_with("\\u2028\\u2029"));
  CHECK(nlohmann::json::parse(json_in_html(evil)) == nlohmann::json::parse(evil));
  CHECK(json_in_html("\xe2\x80\xa6 \xe2\x82\xac") == "\xe2\x80\xa6 \xe2\x82\xac");  // … €
}

TEST_CASE("a report is refused before work where it could not be written") {
  const auto refused = [](const std::string& file) {
    try {
      check_report("--report", file);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  if (!html_page_available()) {
    CHECK(refused("x.html").find("--report: HTML is off") == 0);
    return;
  }
  CHECK(refused("/").find("is a directory") != std::string::npos);
  CHECK(refused("/no/such/folder/x.html").find("there is no folder '/no/such/folder'") !=
        std::string::npos);
  CHECK(refused("").find("accepted: a file") != std::string::npos);
  CHECK(refused("x.html").empty());
}

TEST_CASE("a page holds its document once and names its kind") {
  if (!html_page_available()) {
    CHECK_THROWS_AS(html_page("plan", "{}"), InputError);
    return;
  }
  const std::string page = html_page("plan", R"({"a":"</script>"})");
  CHECK(page.find(R"("kind":"plan")") != std::string::npos);
  CHECK(page.find(R"("document":{"a":"\u003c/script>"})") != std::string::npos);
  CHECK(page.find(R"({"kind":"none"})") == page.rfind(R"({"kind":"none"})"));
  CHECK(page.size() < 3'000'000);

  // Ten thousand points: 8 MB of text that repeats itself.
  std::string points = "[";
  for (int i = 0; i < 10'000; ++i) {
    points += (i == 0 ? "" : ",") + std::string(800, 'x').insert(0, "\"").append("\"");
  }
  const std::string large = html_page("sweep", "{\"points\":" + points + "]}");
  CHECK(large.size() < 3'000'000);
  CHECK(large.find("\"deflated\":\"eN") != std::string::npos);  // zlib's head, 78 da
}
