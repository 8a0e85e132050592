"""The console: a web page that shows and operates clusters.

    access      how a cluster is reached
    collector   one for each cluster: reads its state, with or without viewers, and publishes it
    views       publications as JSON
    application HTTP: pages, logins, roles, streams
    messages    messages of a partition, found and decoded
    actions     operators' changes

Invariant: collectors ask brokers and ZooKeeper at a bounded rate, whatever the number of viewers.
    Other requests to them serve one viewer: messages, one topic, one group. Nothing is stored. No
    answer contains a secret.
"""
