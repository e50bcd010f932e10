"""What is between the nodes of a lab, and between them and clients: one process that passes every byte on, or does not.

Each node listens on a private port and tells everybody the proxy's port for it, so that all connections come by: those
of clients, of brokers to one another, and of all to the controllers. The proxy knows which node opened a connection,
and so can cut two nodes off from each other on one machine, without root, and without either of them noticing. It cuts
streams into Kafka's frames, so that it can lose an answer, or deliver a request late.

    proxy/          in the lab's directory
        control     Unix socket: faults in, those in force out (canary.lab.proxy.control)
        pid, console.log
"""
