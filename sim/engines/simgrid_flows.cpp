#include "sim/engines/simgrid_flows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <string>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"

namespace stepcast {

struct SimgridFlows::Platform {
  struct Flow {
    Platform* platform = nullptr;  // tells our messages from any other activity
    int connection = 0;
    simgrid::s4u::CommPtr comm;
  };

  Platform(const std::vector<MessageLink>& all_links,
           const std::vector<MessageConnection>& connections, simgrid::s4u::NetZone* parent)
      : flows(connections.size()) {
    simgrid::s4u::NetZone* zone = simgrid::s4u::create_star_zone("network");
    if (parent != nullptr) zone->set_parent(parent);
    const auto route = [zone](simgrid::s4u::Host* host,
                              const std::vector<simgrid::s4u::LinkInRoute>& links) {
      zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, links, links.empty());
    };
    sink = zone->create_host("sink", 1.0);
    route(sink, {});
    std::vector<simgrid::s4u::Link*> links;
    for (std::size_t i = 0; i < all_links.size(); ++i) {
      links.push_back(zone->create_link("l" + std::to_string(i), all_links[i].gbps * 1e9));
    }
    for (std::size_t i = 0; i < connections.size(); ++i) {
      std::vector<simgrid::s4u::LinkInRoute> way;
      for (const int link : connections[i].links) way.emplace_back(links[at(link)]);
      hosts.push_back(zone->create_host("c" + std::to_string(i), 1.0));
      route(hosts.back(), way);
    }
    zone->seal();
    simgrid::s4u::Activity::on_completion_cb([this](const simgrid::s4u::Activity& activity) {
      auto* of = activity.get_data<Flow>();
      if (of != nullptr && of->platform == this) ended(*of);
    });
  }

  void ended(Flow& of) {
    // SimGrid still uses an ended message in the end's own callback: released some ends later.
    ended_.push_back(std::move(of.comm));
    if (ended_.size() > 64) ended_.pop_front();
    listener->flow_ended(of.connection);
  }

  Listener* listener = nullptr;
  simgrid::s4u::Host* sink = nullptr;
  std::vector<simgrid::s4u::Host*> hosts;  // by connection
  std::vector<Flow> flows;                 // by connection; never grows
  std::deque<simgrid::s4u::CommPtr> ended_;
};

bool SimgridFlows::possible() { return !simgrid::s4u::Engine::is_initialized(); }

void SimgridFlows::configure() {
  using simgrid::s4u::Engine;
  Engine::set_config("network/model:CM02");
  Engine::set_config("network/crosstraffic:0");
  Engine::set_config("network/TCP-gamma:0");
}

SimgridFlows::SimgridFlows(const std::vector<MessageLink>& links,
                           const std::vector<MessageConnection>& connections,
                           simgrid::s4u::NetZone* parent)
    : platform_(new Platform(links, connections, parent)) {}

void SimgridFlows::listen(Listener& listener) { platform_->listener = &listener; }

void SimgridFlows::start(int connection, double bytes) {
  Platform::Flow& flow = platform_->flows[at(connection)];
  flow.platform = platform_;
  flow.connection = connection;
  flow.comm = simgrid::s4u::Comm::sendto_init(platform_->hosts[at(connection)], platform_->sink);
  flow.comm->set_payload_size(static_cast<std::uint64_t>(std::llround(std::max(1.0, bytes))));
  flow.comm->set_data(&flow);
  flow.comm->start();
}

void SimgridFlows::after(Seconds latency, int connection) {
  Listener* told = platform_->listener;
  simgrid::kernel::timer::Timer::set(simgrid::s4u::Engine::get_clock() + latency,
                                     [told, connection] { told->latency_over(connection); });
}

}  // namespace stepcast
