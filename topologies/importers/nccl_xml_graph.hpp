#pragma once
// The machine that an NCCL topology file becomes, while it is read: devices in the order of the
// file, on which NCCL's search depends, and their links. NVLinks name their other end, so they are
// joined once all GPUs are known. For nccl_xml.cpp.

#include <map>
#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast::importing {

class NcclXmlGraph {
 public:
  Machine machine;
  std::vector<Vertex> cpus, gpus, nics;  // in file order

  std::size_t size() const { return boost::num_vertices(machine.graph); }

  Vertex add_cpu(Device device);
  Vertex add_switch(Vertex parent, int generation, int lanes);
  // A bus id as of another GPU is refused by false, before anything is added.
  bool free_bus(const std::string& bus) const;
  Vertex add_gpu(Device device, const std::string& bus, Vertex parent, int generation, int lanes);
  Vertex add_nic(Device device, Vertex parent, int generation, int lanes);
  Vertex add_virtual_nic(Device device, Vertex cpu);  // nothing between it and the CPU
  void add_c2c(Vertex gpu, Vertex cpu, int count, double gbps);

  // `target`: the bus id of the other end. `unknown`: a GPU if the file has it, else an NVSwitch.
  enum class FarEnd { device, nvswitch, unknown };
  void add_nvlinks(Vertex gpu, const std::string& target, int count, FarEnd far_end);
  // Of GPUs whose NVLinks the file does not have.
  void add_nvswitch();
  void add_nvlinks_between_all();

  int guessed_nvswitch = 0;  // NVLinks that were taken to lead to NVSwitches
  int one_sided = 0;         // pairs of GPUs of which one alone lists their NVLinks

  // Joins NVLinks and CPUs, numbers the devices.
  void finish();

 private:
  Vertex hub();
  void connect_pcie(Vertex child, Vertex parent, int generation, int lanes);
  void connect_nvlink(Vertex a, Vertex b, int count);
  void join_nvlinks();
  void join_cpus();
  void number_devices();

  struct NvlinkEnd {
    Vertex gpu;
    std::string target;
    int count;
    FarEnd far_end;
  };
  std::vector<NvlinkEnd> nvlinks_;
  std::map<std::string, Vertex> of_bus_;
  int switches_ = 0;
};

}  // namespace stepcast::importing
