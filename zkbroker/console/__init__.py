"""The console: a web page that shows and operates clusters.

    access      how a cluster is reached
    collector   one for each cluster: reads its state, with or without viewers, and publishes it
    views       what was published, as JSON
    application what is answered over HTTP; logins, roles, streams
    messages    messages of a partition, found and decoded
    actions     what operators change

Invariant: brokers and ZooKeeper are asked by collectors, at a bounded rate that does not depend on
how many people look on, and by what one person asks for: messages, one topic, one group. Nothing is
stored. No answer holds a secret.
"""
