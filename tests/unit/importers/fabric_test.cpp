// Fabrics out of Slurm's topology.conf and ibnetdiscover's output, worked out by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "topologies/importers/fabric_import.hpp"
#include "topologies/importers/hostlist.hpp"

using namespace stepcast;

namespace {

std::vector<std::string> hosts(const char* text) { return expand_hostlist(text, {"f", 1, ""}); }

std::string refused(const std::string& text) {
  try {
    import_fabric_text(text, "topology.conf");
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

bool says(const ImportedFabric& fabric, const char* words) {
  for (const std::string& note : fabric.notes) {
    if (note.find(words) != std::string::npos) return true;
  }
  return false;
}

// ibnetdiscover's text for switches "S-n" and adapters "H-n".
class Discovered {
 public:
  // `down`: (host, nic) of each port; `up`: switches, a link each time.
  Discovered& add(int id, const std::vector<std::pair<std::string, int>>& down,
                  const std::vector<int>& up, const char* rate = "4xNDR") {
    text_ += fmt::format(
        "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xb8{0}\nswitchguid=0xb8{0}(b8{0})\n"
        "Switch\t65 \"S-{0}\"\t\t# \"MF0;sw{0}:MQM9700/U1\" enhanced port 0 lid {0} lmc 0\n",
        id);
    int port = 0;
    for (const auto& [host, nic] : down) {
      text_ += fmt::format("[{0}]\t\"H-{1}{2}\"[1](a0{1}{2}) \t\t# \"{1} mlx5_{2}\" lid 9 {3}\n",
                           ++port, host, nic, rate);
      adapters_ += fmt::format(
          "\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0xa0{0}\ncaguid=0xa0{0}{1}\n"
          "Ca\t1 \"H-{0}{1}\"\t\t# \"{0} mlx5_{1}\"\n"
          "[1](a0{0}{1}) \t\"S-{2}\"[{3}]\t\t# lid 9 lmc 0 \"sw\" lid 1 {4}\n",
          host, nic, id, port, rate);
    }
    for (const int other : up) {
      text_ += fmt::format("[{}]\t\"S-{}\"[1]\t\t# \"spine\" lid 3 4xNDR\n", ++port, other);
    }
    text_ += "\n";
    return *this;
  }
  ImportedFabric read() const { return import_fabric_text(text(), "fabric.txt"); }
  std::string text() const {
    return "#\n# Topology file: generated on Mon Jun  2 10:00:00 2025\n#\n\n" + text_ + adapters_;
  }

 private:
  std::string text_, adapters_;
};

}  // namespace

TEST_CASE("hostlists: ranges keep their width, brackets multiply") {
  CHECK(hosts("gpu[08-10,3],login") ==
        std::vector<std::string>{"gpu08", "gpu09", "gpu10", "gpu3", "login"});
  CHECK(hosts("r[0-1]n[0-1]") == std::vector<std::string>{"r0n0", "r0n1", "r1n0", "r1n1"});
  CHECK(hosts("a") == std::vector<std::string>{"a"});
  for (const char* bad :
       {"", "a,,b", "a[1-", "a[2-1]", "a[]", "a[x]", "a]", "a[1-2", "a,", "a[0-9999999]",
        "a[0-100000]", "n[1-9136]gpu[033-064]", "a[0-999]b[0-999]c[0-999]", "a[1234567890]"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(hosts(bad), InputError);
  }
}

TEST_CASE("Slurm's tree: two levels are leaf and spine, the common leaf counts") {
  const ImportedFabric f = import_fabric_text(
      "# a comment\n"
      "SwitchName=leaf1 Nodes=gpu[001-032]\n"
      "switchname=leaf2 nodes=gpu[033-064] LinkSpeed=400\n"
      "SwitchName=leaf3 Nodes=gpu[065-080]\n"
      "SwitchName=spine Switches=leaf[1-3]\n",
      "topology.conf");
  CHECK(f.kind == FabricKind::leaf_spine);
  CHECK(f.leaf_ports == 32);
  CHECK(f.hosts == 80);
  CHECK(f.levels == 2);
  CHECK(!f.oversubscription);
  CHECK(says(f, "leaves have 16 to 32 hosts"));
  CHECK(says(f, "LinkSpeed is not used"));
  CHECK(to_toml(f) == "fabric = \"leaf_spine\"\nleaf_ports = 32\n");
  CHECK(describe(f) ==
        "Slurm topology.conf (tree): 80 hosts on 3 leaf switches of 32, 2 levels of switches");
}

TEST_CASE("Slurm: three levels are a fat tree, one leaf a single switch, blocks are leaves") {
  const ImportedFabric fat = import_fabric_text(
      "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=c Nodes=n[9-12]\n"
      "SwitchName=p1 Switches=a,b\nSwitchName=p2 Switches=c\nSwitchName=core Switches=p[1-2]\n",
      "t");
  CHECK(fat.kind == FabricKind::fat_tree);
  CHECK(fat.levels == 3);
  const ImportedFabric one = import_fabric_text("SwitchName=a \\\n  Nodes=n[1-4]\n", "t");
  CHECK(one.kind == FabricKind::single_switch);
  CHECK(to_toml(one) == "fabric = \"single_switch\"\n");
  const ImportedFabric block = import_fabric_text(
      "BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18,36\n", "t");
  CHECK(block.kind == FabricKind::leaf_spine);
  CHECK(block.leaf_ports == 18);
  CHECK(says(block, "a block is taken as a leaf"));
  CHECK(says(block, "2 parts that no switch joins"));
}

TEST_CASE("Slurm: quotes and blanks around the equals sign are as good as none") {
  const ImportedFabric f = import_fabric_text(
      "SwitchName = leaf1 Nodes= \"gpu[01-04]\"\nSwitchName=leaf2 Nodes =gpu[05-08]\n"
      "SwitchName=\"spine\" Switches=\"leaf[1-2]\"\n",
      "topology.conf");
  CHECK(f.hosts == 8);
  CHECK(f.leaves == 2);
  CHECK(f.levels == 2);
  CHECK(refused("SwitchName=a Nodes= LinkSpeed=1\n").find("'Nodes=' is not accepted") !=
        std::string::npos);
}

TEST_CASE("Slurm: mistakes name the line") {
  CHECK(refused("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n") ==
        "topology.conf:2: SwitchName: 'a' is declared twice");
  CHECK(refused("SwitchName=a Switches=b\n").find("topology.conf:1: Switches: 'b' is declared") ==
        0);
  CHECK(refused("SwitchName=a Switches=a\n").find("'a' is below itself") != std::string::npos);
  CHECK(refused("SwitchName=a\n").find("Switches: is missing") != std::string::npos);
  CHECK(refused("SwitchName=a Nodes=n1 Colour=red\n") ==
        "topology.conf:1: colour: is not known; accepted: SwitchName, Nodes, Switches, LinkSpeed, "
        "BlockName, BlockSizes");
  CHECK(refused("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n").find("one of the plugins") !=
        std::string::npos);
  CHECK(refused("SwitchName=a Nodes=n[1-2\n").find("topology.conf:1: Nodes: 'n[1-2'") == 0);
  CHECK(refused("SwitchName=a Nodes=n1 Nodes=n2\n").find("nodes: is there twice") !=
        std::string::npos);
  CHECK(refused("SwitchName=a Switches=b\nSwitchName=b Switches=a\n") ==
        "topology.conf:2: Switches: 'a' is below itself (a > b > a); accepted: switches that are "
        "below others alone");
}

TEST_CASE("Slurm: circles, hosts on a second leaf and sizes of blocks that cannot be are refused") {
  // A circle beside a tree that is fine, entered from above.
  CHECK(refused("SwitchName=top Switches=s1,l\nSwitchName=l Nodes=n[1-4]\nSwitchName=s1 "
                "Switches=s2\nSwitchName=s2 Switches=s3,l\nSwitchName=s3 Switches=s1\n") ==
        "topology.conf:5: Switches: 's1' is below itself (s1 > s2 > s3 > s1); accepted: switches "
        "that are below others alone");
  // Two ways down to one leaf are no circle.
  CHECK(refused("SwitchName=t Switches=a,b\nSwitchName=a Switches=l\nSwitchName=b Switches=l\n"
                "SwitchName=l Nodes=n[1-4]\n") == "taken");
  CHECK(refused("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[4-8]\nSwitchName=s "
                "Switches=a,b\n") ==
        "topology.conf:2: Nodes: 'n4' is on SwitchName 'a' (line 1), too; accepted: each host on "
        "one SwitchName, or all of them on as many");
  CHECK(refused("BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[4-8]\n")
            .find("'n4' is on BlockName 'a' (line 1), too") != std::string::npos);
  CHECK(refused("SwitchName=a Nodes=n[1-4],n2\n") ==
        "topology.conf:1: Nodes: 'n2' is there twice; accepted: each host once");
  // All of them on two: rails.
  CHECK(refused("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[1-4]\n") == "taken");
  const auto sizes = [](const std::string& text) {
    return refused("BlockName=b Nodes=n[1-4]\nBlockSizes=" + text + "\n");
  };
  CHECK(sizes("4,8,32") == "taken");
  for (const char* bad : {"0", "-4", "four", "4,", "4,,8", "1.5", "99999999"}) {
    CAPTURE(bad);
    CHECK(sizes(bad).find("topology.conf:2: BlockSizes: '") == 0);
  }
  CHECK(sizes("4,12") ==
        "topology.conf:2: BlockSizes: 12 behind 4 is not accepted; accepted: the size before times "
        "2, 4, 8, ...");
  CHECK(sizes("8,8").find("8 behind 8") != std::string::npos);
  CHECK(sizes("8,4").find("4 behind 8") != std::string::npos);
}

// As Slurm's manual page of topology.yaml shows them.
const std::string two_topologies =
    "# Slurm 25.05\n"
    "---\n"
    "- topology: ib\n"
    "  cluster_default: true\n"
    "  tree:\n"
    "    switches:\n"
    "      - switch: root\n"
    "        children: leaf[1-3]\n"
    "      - switch: leaf1\n"
    "        nodes: gpu[001-032]\n"
    "      - {switch: leaf2, nodes: 'gpu[033-064]'}\n"
    "      - {switch: leaf3, nodes: 'gpu[065-096]'}\n"
    "- topology: racks\n"
    "  cluster_default: false\n"
    "  block:\n"
    "    block_sizes: [18, 36]\n"
    "    blocks:\n"
    "      - {block: b1, nodes: 'gpu[001-018]'}\n"
    "      - {block: b2, nodes: 'gpu[019-036]'}\n"
    "- topology: all\n"
    "  flat: true\n";

TEST_CASE("Slurm's topology.yaml: the default of several topologies is read as the conf would be") {
  REQUIRE(is_fabric(two_topologies));
  const ImportedFabric f = import_fabric_text(two_topologies, "topology.yaml");
  CHECK(describe(f) ==
        "Slurm topology.yaml (tree): 96 hosts on 3 leaf switches of 32, 2 levels of switches");
  CHECK(to_toml(f) == "fabric = \"leaf_spine\"\nleaf_ports = 32\n");
  CHECK(says(f, "of 3 topologies the default, 'ib', is taken"));
  std::string racks = two_topologies;
  racks.replace(racks.find("default: true"), 13, "default: off!");
  racks.replace(racks.find("off!"), 4, "no");
  racks.replace(racks.find("default: false"), 14, "default: yes");
  const ImportedFabric block = import_fabric_text(racks, "topology.yaml");
  CHECK(block.format == "Slurm topology.yaml (block)");
  CHECK(block.leaf_ports == 18);
  CHECK(says(block, "a block is taken as a leaf"));
}

TEST_CASE("Slurm's topology.yaml: what cannot be read names line and key") {
  const auto yaml = [](const std::string& body) { return refused("- topology: t\n" + body); };
  CHECK(yaml("  flat: true\n") ==
        "topology.conf:1: topology: 't' names no switches; accepted: a tree or a block");
  CHECK(yaml("  tree:\n    switches:\n      - {switch: a, children: b}\n") ==
        "topology.conf:4: children: 'b' is declared nowhere; accepted: a switch of the file");
  CHECK(yaml("  tree:\n    switches:\n      - {switch: a, nodes: n1, children: b}\n") ==
        "topology.conf:4: children: beside nodes; accepted: one of them");
  CHECK(yaml("  tree:\n    switches:\n      - {nodes: n1}\n") ==
        "topology.conf:4: switch: is missing; accepted: a name");
  CHECK(yaml("  tree:\n    switches:\n      - {switch: a, nodes: 'n[1-2'}\n")
            .find("topology.conf:4: nodes: 'n[1-2'") == 0);
  CHECK(yaml("  tree:\n    switches:\n      - {switch: a, nodes: [n1, n2]}\n")
            .find("topology.conf:4: nodes: is not a word") == 0);
  CHECK(yaml("  tree: {switches: {switch: a}}\n") ==
        "topology.conf:2: switches: is no list; accepted: a list");
  CHECK(yaml("  tree: {switches: []}\n") ==
        "topology.conf: declares no switch and no block; accepted: switch or block");
  CHECK(yaml("  tree: {switches: [{switch: a, nodes: n1}]}\n  block: {blocks: []}\n") ==
        "topology.conf:1: topology: 't' is a tree and a block; accepted: one of them");
  CHECK(yaml("  tree: {switches: [{switch: a, colour: red}]}\n") ==
        "topology.conf:2: switches: 'colour' is not known; accepted: switch, nodes, children, "
        "link_speed");
  CHECK(yaml("  tree:\n    switches:\n      - {switch: s1, children: s2}\n"
             "      - {switch: s2, children: s1}\n") ==
        "topology.conf:5: children: 's1' is below itself (s1 > s2 > s1); accepted: switches that "
        "are below others alone");
  CHECK(yaml("  tree:\n    switches:\n      - {switch: a, nodes: 'n[1-2]'}\n"
             "      - {switch: b, nodes: 'n[2-3]'}\n") ==
        "topology.conf:5: nodes: 'n2' is on switch 'a' (line 4), too; accepted: each host on one "
        "switch, or all of them on as many");
  const auto blocks = [&](const std::string& sizes) {
    return yaml("  block:\n    block_sizes: " + sizes + "\n    blocks: [{block: b, nodes: n1}]\n");
  };
  CHECK(blocks("[18, 36]") == "taken");
  CHECK(blocks("[18, 0]") ==
        "topology.conf:3: block_sizes: '0' is not accepted; accepted: hosts of a block, 1 to "
        "1000000, as 18,36");
  CHECK(blocks("[18, 20]").find("topology.conf:3: block_sizes: 20 behind 18") == 0);
  CHECK(blocks("[[1]]").find("block_sizes: '?' is not accepted") != std::string::npos);
  for (const char* none : {"18", "[]", "{a: 1}", "", "many"}) {
    CAPTURE(none);
    CHECK(blocks(none) ==
          "topology.conf:3: block_sizes: is no list of sizes; accepted: as [18, 36]");
  }
  CHECK(yaml("  flat: true\n  torus3d: {}\n") ==
        "topology.conf:3: topology: 'torus3d' is not known; accepted: topology, cluster_default, "
        "tree, block, flat");
  const std::string second = "- topology: u\n  tree: {switches: [{switch: a, nodes: n1}]}\n";
  CHECK(yaml("  tree: {switches: [{switch: a, nodes: n1}]}\n" + second) ==
        "topology.conf:1: cluster_default: none of t, u is the default; accepted: "
        "cluster_default: true at the one that is meant");
  CHECK(yaml("  cluster_default: true\n  flat: yes\n" + second + "  cluster_default: true\n") ==
        "topology.conf:4: cluster_default: 't' is the default already; accepted: one default");
}

TEST_CASE("ibnetdiscover: a NIC a leaf is rails, and a leaf's links give the oversubscription") {
  // Four hosts with two NICs; four links down and two up: 2:1.
  const std::vector<std::pair<std::string, int>> first = {
      {"n1", 0}, {"n2", 0}, {"n3", 0}, {"n4", 0}};
  const std::vector<std::pair<std::string, int>> second = {
      {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}};
  const ImportedFabric f =
      Discovered().add(1, first, {9, 9}).add(2, second, {9, 9}).add(9, {}, {1, 1, 2, 2}).read();
  CHECK(f.format == "ibnetdiscover");
  CHECK(f.kind == FabricKind::rail_optimised);
  CHECK(f.rails == 2);
  CHECK(f.hosts == 4);
  CHECK(f.leaf_ports == 4);
  CHECK(f.levels == 2);
  REQUIRE(f.oversubscription);
  CHECK(*f.oversubscription == doctest::Approx(2));
  REQUIRE(f.nic_gbps);
  CHECK(*f.nic_gbps == doctest::Approx(50));
  CHECK(to_toml(f) ==
        "fabric = \"rail_optimised\"\nleaf_ports = 4\noversubscription = 2\nnetwork = "
        "\"infiniband\"\nnic_gbps = 50\n");
  // The same without a spine: nothing joins the rails.
  const ImportedFabric apart = Discovered().add(1, first, {}).add(2, second, {}).read();
  CHECK(apart.kind == FabricKind::rail_only);
  CHECK(to_toml(apart) == "fabric = \"rail_only\"\nnetwork = \"infiniband\"\nnic_gbps = 50\n");
}

TEST_CASE("ibnetdiscover: both NICs on one leaf are leaf and spine, storage hosts are left out") {
  const ImportedFabric f = Discovered()
                               .add(1, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}, {9, 9, 9, 9})
                               .add(2, {{"n3", 0}, {"n3", 1}, {"n4", 0}, {"n4", 1}}, {9, 9, 9, 9})
                               .add(9, {{"nas", 0}}, {1, 1, 1, 1, 2, 2, 2, 2})
                               .read();
  CHECK(f.kind == FabricKind::leaf_spine);
  CHECK(f.hosts == 4);
  CHECK(f.leaf_ports == 2);
  CHECK(f.leaves == 2);
  REQUIRE(f.oversubscription);
  CHECK(*f.oversubscription == doctest::Approx(1));
  CHECK(says(f, "1 host is left out"));
}

TEST_CASE("ibnetdiscover: a prompt above the output and the headings of -g are passed over") {
  Discovered one;
  one.add(1, {{"a", 0}, {"b", 0}}, {});
  const auto hosts_of = [&](const std::string& before, const std::string& behind) {
    return import_fabric_text(before + one.text() + behind, "fabric.txt").hosts;
  };
  CHECK(hosts_of("$ sudo ibnetdiscover -g\n", "") == 2);
  CHECK(hosts_of("\nChassis 1 (guid 0x2c902004a5c28) (chassisnum 1)\n", "\nNon-Chassis Nodes\n") ==
        2);
  CHECK(refused(one.text() + "what is this\n").find("'what is this' is not accepted") !=
        std::string::npos);
}

TEST_CASE("ibnetdiscover: rates by width and generation, slower ports are said") {
  const ImportedFabric f = Discovered().add(1, {{"n1", 0}, {"n2", 0}}, {}, "4xHDR").read();
  CHECK(f.kind == FabricKind::single_switch);
  CHECK(*f.nic_gbps == doctest::Approx(25));
  const ImportedFabric edr = Discovered().add(1, {{"n1", 0}, {"n2", 0}}, {}, "2xHDR").read();
  CHECK(*edr.nic_gbps == doctest::Approx(12.5));
  const ImportedFabric none = Discovered().add(1, {{"n1", 0}, {"n2", 0}}, {}, "").read();
  CHECK(!none.nic_gbps);
}

TEST_CASE("ibnetdiscover: a switch that is named and not there is refused, with its line") {
  const std::string text = Discovered().add(1, {{"n1", 0}}, {7}).text();
  CHECK(refused(text).find("topology.conf:11: switch 'S-7' has no paragraph") == 0);
  CHECK(refused("Switch\t36 \"S-1\"\n[1] nonsense\n").find("topology.conf:2: a port without") == 0);
}

TEST_CASE("ibnetdiscover: a text that was cut is refused, or is the whole fabric") {
  const std::string text = Discovered()
                               .add(1, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}, {9, 9})
                               .add(2, {{"n3", 0}, {"n3", 1}, {"n4", 0}, {"n4", 1}}, {9, 9})
                               .add(9, {{"nas", 0}}, {1, 1, 2, 2})
                               .text();
  const std::string whole = to_toml(import_fabric_text(text, "f"));
  int taken = 0;
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    std::string cut;
    try {
      cut = to_toml(import_fabric_text(text.substr(0, length), "f"));
    } catch (const InputError&) {
      continue;
    }
    CHECK(cut == whole);
    ++taken;
  }
  CHECK(taken > 0);
  CHECK(taken < 80);  // within the last line
}

TEST_CASE("ibnetdiscover: links that one end alone lists are refused with what is missing") {
  const std::string head = "switchguid=0x1\nSwitch\t36 \"S-1\"\t# \"leaf\"\n";
  const std::string host = "[1]\t\"H-1\"[1]\t# \"n1 m\" lid 1 4xNDR\n";
  const std::string adapter = "Ca\t1 \"H-1\"\t# \"n1 m\"\n[1]\t\"S-1\"[1]\t# lid 1 4xNDR\n";
  CHECK(refused(head + host + adapter) == "taken");
  CHECK(refused(head + host).find("topology.conf:3: adapter 'H-1' has no paragraph") == 0);
  CHECK(refused(head + adapter).find("topology.conf:2: switch 'leaf' has no links") == 0);
  CHECK(refused(head + host + "Ca\t1 \"H-1\"\t# \"n1 m\"\n")
            .find("topology.conf:4: adapter 'H-1' lists 0 links to switches, and they list 1") ==
        0);
  CHECK(refused(head + host + "[2]\t\"H-2\"\n" + adapter)
            .find("topology.conf:4: a link to 'H-2' without the port there") == 0);
  CHECK(refused(head + host + "[2]\t\"H-\n" + adapter)
            .find("topology.conf:4: breaks off within quotes") == 0);
  CHECK(refused(head + host + "[2]\t\"S-2\"[1]\t# \"spine\" lid 2 4xNDR\n" +
                "Switch\t36 \"S-2\"\t# \"spine\"\n[2]\t\"S-2\"[3]\n[3]\t\"S-2\"[2]\n" + adapter)
            .find("switch 'leaf' lists 1 link to 'spine', which lists 0 back") !=
        std::string::npos);
}

TEST_CASE("a fabric's file is told from a machine's") {
  CHECK(is_fabric("# x\n\n  SWITCHNAME=a Nodes=b\n"));
  CHECK(is_fabric(Discovered().add(1, {{"n1", 0}}, {}).text()));
  CHECK(!is_fabric("\tGPU0\tGPU1\nGPU0\t X \tNV18\n"));
  CHECK(!is_fabric("<system version=\"1\"/>"));
  CHECK(!is_fabric(""));
}
