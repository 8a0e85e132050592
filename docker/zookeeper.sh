#!/bin/sh
# One member of a ZooKeeper ensemble: ZOO_ID is its number, ZOO_SERVERS the names of all, in order.
set -eu

echo "$ZOO_ID" >/data/myid
{
    echo "tickTime=2000"
    echo "initLimit=10"
    echo "syncLimit=5"
    echo "dataDir=/data"
    echo "clientPort=2181"
    echo "admin.enableServer=false"
    echo "4lw.commands.whitelist=ruok,srvr"
    echo "autopurge.purgeInterval=24"
    number=1
    for server in $ZOO_SERVERS; do
        echo "server.$number=$server:2888:3888"
        number=$((number + 1))
    done
} >/data/zoo.cfg
exec java -Xmx256m -Dzookeeper.log.dir=/tmp -cp '/etc/zookeeper/conf:/usr/share/java/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /data/zoo.cfg
