import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** The genuine admin client and ACLs: java AclChecks BOOTSTRAP. */
final class AclChecks {
    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        admin = Admin.create(Checks.properties("bootstrap.servers", arguments[0]));
        Checks checks = new Checks(null);
        checks.check("created-described-and-deleted", AclChecks::createdDescribedAndDeleted);
        checks.check("matched", AclChecks::matched);
        checks.check("every-operation", AclChecks::everyOperation);
        checks.check("refused", AclChecks::refused);
        checks.finish();
    }

    private static AclBinding binding(ResourceType type, String name, PatternType pattern, AclOperation operation,
                                      AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
                new AccessControlEntry("User:CN=x,OU=y z,O=é", "10.0.0.1", operation, permission));
    }

    private static Collection<AclBinding> of(String name, PatternType pattern) throws Exception {
        return admin.describeAcls(new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.ANY, name, pattern), AccessControlEntryFilter.ANY)).values().get();
    }

    private static void createdDescribedAndDeleted() throws Exception {
        List<AclBinding> wanted = List.of(
                binding(ResourceType.TOPIC, "java-a", PatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW),
                binding(ResourceType.TOPIC, "java-a", PatternType.LITERAL, AclOperation.WRITE, AclPermissionType.DENY),
                binding(ResourceType.GROUP, "java-a", PatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW));
        admin.createAcls(wanted).all().get();
        admin.createAcls(wanted).all().get();
        Checks.same(Set.copyOf(wanted), Set.copyOf(of("java-a", PatternType.LITERAL)));
        Collection<AclBinding> gone = admin.deleteAcls(List.of(wanted.get(0).toFilter())).all().get();
        Checks.same(List.of(wanted.get(0)), List.copyOf(gone));
        Checks.same(2, of("java-a", PatternType.ANY).size());
        admin.deleteAcls(List.of(new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.ANY, "java-a", PatternType.ANY), AccessControlEntryFilter.ANY)))
                .all().get();
        Checks.same(0, of("java-a", PatternType.ANY).size());
    }

    private static void matched() throws Exception {
        AclBinding prefix = binding(ResourceType.TRANSACTIONAL_ID, "java-m", PatternType.PREFIXED, AclOperation.WRITE,
                AclPermissionType.ALLOW);
        admin.createAcls(List.of(prefix)).all().get();
        Checks.same(List.of(prefix), List.copyOf(of("java-m-1", PatternType.MATCH)));
        Checks.same(0, of("java-m-1", PatternType.PREFIXED).size());
        Checks.same(0, of("java-m", PatternType.LITERAL).size());
        admin.deleteAcls(List.of(prefix.toFilter())).all().get();
        Checks.same(0, of("java-m", PatternType.ANY).size());
    }

    private static void everyOperation() throws Exception {
        List<AclBinding> wanted = new ArrayList<>();
        for (AclOperation operation : AclOperation.values()) {
            if (operation.code() >= AclOperation.ALL.code() && operation.code() <= AclOperation.IDEMPOTENT_WRITE.code()) {
                wanted.add(binding(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, operation,
                        AclPermissionType.ALLOW));
            }
        }
        admin.createAcls(wanted).all().get();
        Checks.same(Set.copyOf(wanted), Set.copyOf(of("kafka-cluster", PatternType.LITERAL)));
        for (AclBinding each : wanted) {
            admin.deleteAcls(List.of(each.toFilter())).all().get();
        }
        Checks.same(0, of("kafka-cluster", PatternType.LITERAL).size());
    }

    private static void refused() throws Exception {
        AclBinding odd = binding(ResourceType.TOPIC, "a/b", PatternType.LITERAL, AclOperation.READ,
                AclPermissionType.ALLOW);
        try {
            admin.createAcls(List.of(odd)).all().get();
        } catch (ExecutionException error) {
            Checks.same(InvalidRequestException.class, error.getCause().getClass());
            return;
        }
        throw new AssertionError("created");
    }
}
