// SPDX-License-Identifier: Apache-2.0
// A bottleneck in ns-3 with flows of TcpBbr or TcpCubic, whose TCP is ns-3's model. One line of JSON tells packets that
// left the queue, bits of theirs over what the link can carry, and drops.
//
//     ns3_dumbbell RATE_BPS RTT_NS MTU CCA FLOWS SECONDS BUFFER_BYTES

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

using namespace ns3;

namespace {

constexpr uint16_t PORT = 5201;
constexpr uint32_t HEADERS_BYTES = 52; // IPv4, TCP with timestamps
constexpr uint64_t ACCESS_FACTOR = 4;  // how much faster than the bottleneck the senders' links are
constexpr uint64_t BUFFER_FACTOR = 4;  // of what path and queue hold: sockets' buffers are not in the way

uint64_t departures = 0, bytes = 0, drops = 0;

void Departed(Ptr<const Packet> packet) {
  ++departures;
  bytes += packet->GetSize();
}

void Dropped(Ptr<const Packet>) { ++drops; }

PointToPointHelper Link(uint64_t rate, Time delay, uint32_t mtu, const std::string &queue) {
  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
  link.SetDeviceAttribute("Mtu", UintegerValue(mtu));
  link.SetChannelAttribute("Delay", TimeValue(delay));
  link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(queue));
  return link;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 8) {
    std::cerr << "usage: ns3_dumbbell RATE_BPS RTT_NS MTU CCA FLOWS SECONDS BUFFER_BYTES\n";
    return 2;
  }
  const uint64_t rate = std::stoull(argv[1]);
  const Time rtt = NanoSeconds(std::stoull(argv[2]));
  const TypeId cca = TypeId::LookupByName(std::string("ns3::") + argv[4]);
  const uint32_t mtu = std::stoul(argv[3]), flows = std::stoul(argv[5]);
  const Time end = Seconds(std::stod(argv[6]));
  const uint64_t buffer = std::stoull(argv[7]);
  const uint64_t path = rate / 8.0 * rtt.GetSeconds();

  const UintegerValue sockets(BUFFER_FACTOR * (path + buffer));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mtu - HEADERS_BYTES));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", sockets);
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", sockets);
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  // Linux's: with the default of a second, a lost retransmission leaves the link idle for longer than a run of it may.
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
  Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));

  NodeContainer nodes(2 + flows); // router, receiver, senders
  InternetStackHelper().Install(nodes);
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");

  NetDeviceContainer bottleneck = Link(rate, Time(0), mtu, std::to_string(buffer) + "B").Install(nodes.Get(0), nodes.Get(1));
  Ptr<PointToPointNetDevice> port = DynamicCast<PointToPointNetDevice>(bottleneck.Get(0));
  port->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Departed));
  // A full device is not asked: the layer above it drops.
  nodes.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeCallback(&Dropped));
  const Ipv4Address receiver = addresses.Assign(bottleneck).GetAddress(1);

  PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
  sink.Install(nodes.Get(1)).Start(Time(0));
  for (uint32_t flow = 0; flow < flows; ++flow) {
    Ptr<Node> sender = nodes.Get(2 + flow);
    addresses.NewNetwork();
    NetDeviceContainer access = Link(ACCESS_FACTOR * rate, rtt / 2, mtu, "100000p").Install(sender, nodes.Get(0));
    addresses.Assign(access);
    sender->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(cca));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(receiver, PORT));
    bulk.SetAttribute("SendSize", UintegerValue(1 << 16));
    bulk.Install(sender).Start(Time(0));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  // No queueing discipline above the devices' queues: the bottleneck's is the one that was asked for.
  for (uint32_t node = 0; node < nodes.GetN(); ++node) {
    Ptr<TrafficControlLayer> layer = nodes.Get(node)->GetObject<TrafficControlLayer>();
    for (uint32_t number = 0; number < nodes.Get(node)->GetNDevices(); ++number) {
      Ptr<NetDevice> device = nodes.Get(node)->GetDevice(number);
      if (layer->GetRootQueueDiscOnDevice(device)) {
        layer->DeleteRootQueueDiscOnDevice(device);
      }
    }
  }

  Simulator::Stop(end);
  Simulator::Run();
  std::cout << "{\"packets\": " << departures << ", \"utilization\": "
            << 8.0 * bytes / (rate * end.GetSeconds()) << ", \"drops\": " << drops << "}" << std::endl;
  Simulator::Destroy();
  return 0;
}
