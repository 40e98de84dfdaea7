#include "sim/report/picture.hpp"

#include <doctest/doctest.h>

#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("a picture has a row for each stream that ran and rectangles at the spans' places") {
  const Schedule schedule = small_step();
  const Timeline timeline = run_once(schedule, small_step_costs(schedule));
  PictureOptions options;
  options.width = 150 + 20 + 1000;  // margins and a plot of 1000 pixels
  const std::string svg = to_picture(schedule, timeline, options);
  CHECK(svg.rfind("<svg", 0) == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  for (const Stream& stream : schedule.streams) {
    CHECK(count(svg, ">" + stream.name.str() + "</text>") == 1);
  }
  // The gather of u1 runs from 2 to 6 s of the step; x = 150 + 1000 t / step.
  const double scale = 1000.0 / timeline.steps.back().end;
  char place[64];
  std::snprintf(place, sizeof place, "class=\"ag\" x=\"%.2f\"", 150 + 2 * scale);
  CHECK(count(svg, place) == 1);
}

TEST_CASE("of two roles both have rows under their names, and only the first a memory curve") {
  ScheduleBuilder builder("two roles", Mesh{2, 1});
  builder.lane("main");
  const StreamIndex compute = builder.stream("compute");
  const CommIndex world = builder.communicator("world", Axis::world);
  for (const char* name : {"gpu0", "rest"}) {
    builder.role(name, std::string(name) == "gpu0" ? 0 : 1, 1);
    builder.step("steady");
    builder.collective("broadcast", CollectiveKind::broadcast, world, compute, Dtype::fp32, 1024,
                       Reduction::none, {}, {}, 0);
  }
  const Schedule schedule = builder.take();
  const Timeline timeline = run_once(schedule, costs_by(schedule, [](const Op&) { return 1.0; }));
  const std::string svg = to_picture(schedule, timeline, {});
  CHECK(count(svg, ">gpu0 compute</text>") == 1);
  CHECK(count(svg, ">rest compute</text>") == 1);
  CHECK(count(svg, "<rect class=\"ar\" x=\"150.00\"") >= 2);
}

TEST_CASE("names are escaped and an empty timeline draws nothing") {
  Schedule schedule = small_step();
  const Timeline timeline = run_once(schedule, small_step_costs(schedule));
  PictureOptions options;
  options.title = "<script>&\"";
  const std::string svg = to_picture(schedule, timeline, options);
  CHECK(count(svg, "<script>") == 0);
  CHECK(count(svg, "&lt;script&gt;&amp;&quot;") == 1);
  CHECK(to_picture(schedule, Timeline{}).empty());
}
