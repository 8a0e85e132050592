import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The genuine admin client: java AdminChecks BOOTSTRAP [CHECK]. */
final class AdminChecks {
    /** Soon enough for retention to leave the records alone. */
    private static final long TIMESTAMP = System.currentTimeMillis() - 1_000_000;

    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(Checks.properties("bootstrap.servers", bootstrap));
        Checks checks = new Checks(arguments.length > 1 ? arguments[1] : null);
        checks.check("describe-cluster", AdminChecks::describeCluster);
        checks.check("create-and-delete-topics", AdminChecks::createAndDeleteTopics);
        checks.check("topics-with-assignments", AdminChecks::topicsWithAssignments);
        checks.check("topics-refused", AdminChecks::topicsRefused);
        checks.check("create-partitions", AdminChecks::createPartitions);
        checks.check("preferred-leaders-elected", AdminChecks::preferredLeadersElected);
        checks.check("topic-configs", AdminChecks::topicConfigs);
        checks.check("broker-configs", AdminChecks::brokerConfigs);
        checks.check("list-offsets", AdminChecks::listOffsets);
        checks.check("delete-records", AdminChecks::deleteRecords);
        checks.check("group-described", AdminChecks::groupDescribed);
        checks.check("group-offsets-altered", AdminChecks::groupOffsetsAltered);
        checks.check("groups-deleted", AdminChecks::groupsDeleted);
        checks.check("unknown-groups", AdminChecks::unknownGroups);
        checks.check("log-dirs-described", AdminChecks::logDirsDescribed);
        checks.check("producers-fenced", () -> admin.fenceProducers(List.of("tx")).all().get());
        refusals().forEach((name, ask) -> checks.check("refused-" + name, () -> refused(name, ask)));
        checks.finish();
    }

    private static String fresh() {
        return "java-" + System.nanoTime();
    }

    private static String topic(int partitions) throws Exception {
        String name = fresh();
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        return name;
    }

    private static void write(String topic, int partitions, int count) {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "key.serializer", ByteArraySerializer.class.getName(),
                "value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < count; i++) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, TIMESTAMP + 1000L * i, null, new byte[10]));
                }
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String group) {
        return new KafkaConsumer<>(Checks.properties(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "client.id", "member of " + group,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName()));
    }

    private static void describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        Collection<Node> nodes = cluster.nodes().get();
        Checks.same(bootstrap.split(",").length, nodes.size());
        Checks.holds(nodes.contains(cluster.controller().get()), "no controller");
        Checks.holds(cluster.clusterId().get().length() == 22, "cluster id " + cluster.clusterId().get());
        Checks.same(null, cluster.authorizedOperations().get());
    }

    private static void createAndDeleteTopics() throws Exception {
        String one = fresh();
        String two = fresh();
        CreateTopicsResult created = admin.createTopics(List.of(
                new NewTopic(one, 3, (short) 1).configs(Map.of("retention.ms", "123456")),
                new NewTopic(two, 1, (short) 1)));
        created.all().get();
        Checks.await("both listed", () -> admin.listTopics().names().get().containsAll(List.of(one, two)));
        TopicDescription described = describe(one);
        Checks.same(3, described.partitions().size());
        for (TopicPartitionInfo partition : described.partitions()) {
            Checks.holds(partition.leader() != null && partition.leader().port() > 0, "no leader: " + partition);
            Checks.same(List.of(partition.leader()), partition.replicas());
            Checks.same(List.of(partition.leader()), partition.isr());
        }
        Checks.raises(TopicExistsException.class,
                () -> admin.createTopics(List.of(new NewTopic(one, 3, (short) 1))).all().get());
        admin.deleteTopics(List.of(one, two)).all().get();
        Checks.await("both gone", () -> admin.listTopics().names().get().stream()
                .noneMatch(name -> name.equals(one) || name.equals(two)));
        Checks.raises(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(one)).all().get());
        Checks.raises(UnknownTopicOrPartitionException.class, () -> describe(one));
        admin.createTopics(List.of(new NewTopic(one, 1, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all().get();
        Checks.raises(UnknownTopicOrPartitionException.class, () -> describe(one));
    }

    private static TopicDescription describe(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void topicsWithAssignments() throws Exception {
        List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(Node::id).sorted().toList();
        int first = brokers.get(0);
        int last = brokers.get(brokers.size() - 1);
        String name = fresh();
        admin.createTopics(List.of(new NewTopic(name, Map.of(0, List.of(last), 1, List.of(first), 2, List.of(last)))))
                .all().get();
        List<Integer> leaders = describe(name).partitions().stream().map(info -> info.leader().id()).toList();
        Checks.same(List.of(last, first, last), leaders);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4, List.of(List.of(first))))).all().get();
        Checks.await("a fourth partition", () -> describe(name).partitions().size() == 4);
        Checks.same(first, describe(name).partitions().get(3).leader().id());
        write(name, 4, 5);
    }

    private static void topicsRefused() throws Exception {
        Map<Class<? extends Throwable>, List<NewTopic>> refused = Map.of(
                InvalidTopicException.class, List.of(new NewTopic("not a/topic", 1, (short) 1)),
                InvalidPartitionsException.class, List.of(new NewTopic(fresh(), 0, (short) 1)),
                InvalidReplicationFactorException.class, List.of(
                        new NewTopic(fresh(), 1, (short) 9), new NewTopic(fresh(), 1, (short) 0)),
                InvalidConfigurationException.class, List.of(
                        new NewTopic(fresh(), 1, (short) 1).configs(Map.of("retention.ms", "soon"))),
                InvalidReplicaAssignmentException.class, List.of(
                        new NewTopic(fresh(), Map.of(0, List.of(1, 1))),
                        new NewTopic(fresh(), Map.of(1, List.of(1)))));
        for (Map.Entry<Class<? extends Throwable>, List<NewTopic>> kind : refused.entrySet()) {
            for (NewTopic topic : kind.getValue()) {
                Throwable error = Checks.raises(kind.getKey(), () -> admin.createTopics(List.of(topic)).all().get());
                Checks.note("topics-refused", topic + " " + error);
            }
        }
    }

    private static void createPartitions() throws Exception {
        String name = topic(2);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all().get();
        Checks.await("five partitions", () -> describe(name).partitions().size() == 5);
        Checks.raises(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all().get());
        Checks.raises(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(1))).all().get());
        Checks.raises(UnknownTopicOrPartitionException.class,
                () -> admin.createPartitions(Map.of(fresh(), NewPartitions.increaseTo(3))).all().get());
    }

    private static void preferredLeadersElected() throws Exception {
        String name = topic(2);
        TopicPartition known = new TopicPartition(name, 1);
        TopicPartition unknown = new TopicPartition(fresh(), 0);
        Map<TopicPartition, Optional<Throwable>> answers =
                admin.electLeaders(ElectionType.PREFERRED, Set.of(known, unknown)).partitions().get();
        Checks.same(Optional.empty(), answers.get(known));
        Checks.same(UnknownTopicOrPartitionException.class, answers.get(unknown).get().getClass());
        Checks.same(Optional.empty(), admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().get(known));
    }

    private static Config config(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true))
                .all().get().get(resource);
    }

    private static void topicConfigs() throws Exception {
        String name = fresh();
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1).configs(Map.of("retention.ms", "123456")))).all().get();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        ConfigEntry retention = config(resource).get("retention.ms");
        Checks.same("123456", retention.value());
        Checks.same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.source());
        ConfigEntry segment = config(resource).get("segment.bytes");
        Checks.holds(segment.isDefault() || segment.source() == ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG,
                "source " + segment.source());
        Checks.holds(config(resource).get("cleanup.policy") != null, "no cleanup.policy");
        ConfigResource unknown = new ConfigResource(ConfigResource.Type.TOPIC, fresh());
        Checks.raises(UnknownTopicOrPartitionException.class, () -> config(unknown));
        if (alterConfigs(resource, new ConfigEntry("segment.bytes", "2097152"))) {
            Checks.await("the new config", () -> config(resource).get("segment.bytes").value().equals("2097152"));
            Checks.holds(!config(resource).get("retention.ms").value().equals("123456"),
                    "AlterConfigs replaces all configs of a topic");
        }
        Checks.raises(UnsupportedVersionException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET)))).all().get());
    }

    /** `alterConfigs` exists until 3.9: by name, so that this compiles with what came after; false without it. */
    private static boolean alterConfigs(ConfigResource resource, ConfigEntry... entries) throws Exception {
        java.lang.reflect.Method alter;
        try {
            alter = Admin.class.getMethod("alterConfigs", Map.class);
        } catch (NoSuchMethodException error) {
            return false;
        }
        Object result = alter.invoke(admin, Map.of(resource, new Config(List.of(entries))));
        ((KafkaFuture<?>) result.getClass().getMethod("all").invoke(result)).get();
        return true;
    }

    private static void brokerConfigs() throws Exception {
        String id = admin.describeCluster().nodes().get().iterator().next().idString();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, id);
        Config config = config(resource);
        Checks.same(id, config.get("broker.id").value());
        Checks.same(ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, config.get("broker.id").source());
        Checks.holds(config.get("log.retention.ms") != null, "no log.retention.ms");
        Checks.holds(config.entries().stream().allMatch(entry -> !entry.name().isEmpty()), "an empty name");
        Checks.same("-1", config.get("log.retention.hours").value());
        Checks.holds(config.get("num.partitions").isReadOnly(), "num.partitions may not change");
        Checks.holds(!config.get("message.max.bytes").isReadOnly(), "message.max.bytes may change");
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        if (!alterConfigs(resource, new ConfigEntry("message.max.bytes", "900000"))) {
            return;
        }
        alterConfigs(all, new ConfigEntry("message.max.bytes", "800000"));
        ConfigEntry largest = config(resource).get("message.max.bytes");
        Checks.same("900000", largest.value());
        Checks.same(ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, largest.source());
        Checks.same(
                List.of(ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG,
                        ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
                        ConfigEntry.ConfigSource.DEFAULT_CONFIG),
                largest.synonyms().stream().map(ConfigEntry.ConfigSynonym::source).toList());
        Checks.same(1, config(all).entries().size());
        alterConfigs(resource);
        alterConfigs(all);
        Checks.same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config(resource).get("message.max.bytes").source());
        Checks.raises(InvalidRequestException.class, () -> alterConfigs(resource, new ConfigEntry("broker.id", "5")));
    }

    private static void listOffsets() throws Exception {
        String name = topic(2);
        write(name, 2, 20);
        TopicPartition first = new TopicPartition(name, 0);
        TopicPartition second = new TopicPartition(name, 1);
        Checks.same(0L, offset(first, OffsetSpec.earliest()));
        Checks.same(20L, offset(second, OffsetSpec.latest()));
        Checks.same(7L, offset(first, OffsetSpec.forTimestamp(TIMESTAMP + 6_500)));
        Checks.same(-1L, offset(first, OffsetSpec.forTimestamp(TIMESTAMP + 900_000)));
        Checks.raises(UnsupportedVersionException.class, () -> offset(first, OffsetSpec.maxTimestamp()));
        Checks.same(20L, offset(first, OffsetSpec.latest()));
    }

    private static long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private static void deleteRecords() throws Exception {
        String name = topic(2);
        write(name, 2, 20);
        TopicPartition first = new TopicPartition(name, 0);
        TopicPartition second = new TopicPartition(name, 1);
        Map<TopicPartition, RecordsToDelete> ask =
                Map.of(first, RecordsToDelete.beforeOffset(5), second, RecordsToDelete.beforeOffset(-1));
        Map<TopicPartition, Long> low = new HashMap<>();
        for (Map.Entry<TopicPartition, KafkaFuture<org.apache.kafka.clients.admin.DeletedRecords>> entry :
                admin.deleteRecords(ask).lowWatermarks().entrySet()) {
            low.put(entry.getKey(), entry.getValue().get().lowWatermark());
        }
        Checks.same(Map.of(first, 5L, second, 20L), low);
        Checks.same(5L, offset(first, OffsetSpec.earliest()));
        Checks.raises(OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(21))).all().get());
    }

    private static ConsumerGroupDescription describeGroup(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group);
    }

    private static void groupDescribed() throws Exception {
        String name = topic(3);
        write(name, 3, 5);
        String group = fresh();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.subscribe(List.of(name));
            Checks.await("an assignment", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().size() == 3;
            });
            consumer.commitSync();
            ConsumerGroupDescription description = describeGroup(group);
            Checks.same("range", description.partitionAssignor());
            Checks.same("Stable", description.state().toString());
            Checks.holds(description.coordinator().port() > 0, "no coordinator");
            Checks.same(1, description.members().size());
            MemberDescription member = description.members().iterator().next();
            Checks.same("member of " + group, member.clientId());
            Checks.same("/127.0.0.1", member.host());
            Checks.same(3, member.assignment().topicPartitions().size());
            Checks.holds(listed().contains(group), "not listed");
            Checks.raises(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            // Error 25 (4.x says it so) or error 68, as the client reads it.
            TopicPartition partition = new TopicPartition(name, 0);
            Checks.raises(KafkaException.class, () -> admin.alterConsumerGroupOffsets(
                    group, Map.of(partition, new OffsetAndMetadata(1))).all().get());
            Checks.raises(UnsupportedVersionException.class,
                    () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get());
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
            Checks.await("the member gone", () -> describeGroup(group).members().isEmpty());
        }
    }

    private static Set<String> listed() throws Exception {
        return admin.listConsumerGroups().all().get().stream()
                .map(ConsumerGroupListing::groupId).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void groupOffsetsAltered() throws Exception {
        String name = topic(2);
        write(name, 2, 5);
        String group = fresh();
        TopicPartition first = new TopicPartition(name, 0);
        TopicPartition second = new TopicPartition(name, 1);
        admin.alterConsumerGroupOffsets(group, Map.of(
                first, new OffsetAndMetadata(3, "by hand"), second, new OffsetAndMetadata(4))).all().get();
        Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        Checks.same(2, offsets.size());
        Checks.same(3L, offsets.get(first).offset());
        Checks.same("by hand", offsets.get(first).metadata());
        Checks.same(4L, offsets.get(second).offset());
        Checks.same("Empty", describeGroup(group).state().toString());
        Checks.holds(listed().contains(group), "not listed");
    }

    private static void groupsDeleted() throws Exception {
        String name = topic(1);
        String group = fresh();
        admin.alterConsumerGroupOffsets(group, Map.of(new TopicPartition(name, 0), new OffsetAndMetadata(3))).all().get();
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Checks.same(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
        Checks.holds(!listed().contains(group), "still listed");
        Checks.raises(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    private static void unknownGroups() throws Exception {
        String group = fresh();
        try {
            Checks.same("Dead", describeGroup(group).state().toString());
        } catch (java.util.concurrent.ExecutionException error) {
            // 4.x takes a dead group of an old broker for one that is not there.
            Checks.holds(error.getCause() instanceof GroupIdNotFoundException, "" + error);
        }
        Checks.same(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    private static void logDirsDescribed() throws Exception {
        TopicPartition partition = new TopicPartition(topic(1), 0);
        write(partition.topic(), 1, 5);
        int leader = describe(partition.topic()).partitions().get(0).leader().id();
        long bytes = admin.describeLogDirs(List.of(leader)).allDescriptions().get().get(leader).values().stream()
                .filter(directory -> directory.replicaInfos().containsKey(partition))
                .mapToLong(directory -> directory.replicaInfos().get(partition).size()).sum();
        Checks.holds(bytes > 0, "size " + bytes);
    }

    private interface Ask {
        KafkaFuture<?> ask() throws Exception;
    }

    /** What Kafka 2.1 had not, or what needs an authorizer, replication or transactions. */
    private static Map<String, Ask> refusals() throws Exception {
        Map<String, Ask> asks = new TreeMap<>();
        TopicPartition partition = new TopicPartition(topic(1), 0);
        asks.put("describe-acls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        asks.put("describe-client-quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        asks.put("describe-producers", () -> admin.describeProducers(List.of(partition)).all());
        asks.put("describe-transactions", () -> admin.describeTransactions(List.of("tx")).all());
        asks.put("list-transactions", () -> admin.listTransactions().all());
        asks.put("list-client-metrics", () -> admin.listClientMetricsResources().all());
        asks.put("reassignments", () -> admin.listPartitionReassignments().reassignments());
        asks.put("reassign", () -> admin.alterPartitionReassignments(
                Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(1))))).all());
        asks.put("elect-unclean-leaders", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(partition)).all());
        asks.put("user-scram", () -> admin.describeUserScramCredentials().all());
        asks.put("delegation-tokens", () -> admin.describeDelegationToken().delegationTokens());
        asks.put("metadata-quorum", () -> admin.describeMetadataQuorum().quorumInfo());
        return asks;
    }

    private static void refused(String name, Ask ask) throws Exception {
        KafkaException error = Checks.raises(KafkaException.class, () -> ask.ask().get());
        Checks.note("refused-" + name, error.toString());
        // Transactions have no coordinator here; whatever else is refused, the client refuses itself.
        boolean known = error instanceof UnsupportedVersionException || error instanceof InvalidRequestException
                || error instanceof SecurityDisabledException || error instanceof TransactionalIdAuthorizationException;
        Checks.holds(known, error.toString());
        admin.describeCluster().nodes().get();
    }
}
