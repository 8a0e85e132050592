"""The console: a web page over clusters, for people who look at them and steer them.

    access      how a cluster is reached
    collector   one for each cluster: looks at it, whoever looks on, and publishes what it saw
    views       what was published, as JSON
    application what is answered over HTTP; logins, roles, streams
    messages    messages of a partition, found and decoded
    actions     what operators change

Invariant: brokers and ZooKeeper are asked by collectors, at a bounded rate that does not depend on
how many people look on, and by what one person asks for: messages, one topic, one group. Nothing is
stored. No answer holds a secret.
"""
