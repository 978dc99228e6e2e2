package porpoise;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Process engines that install their tables: each runs a process of one task and reads its history. */
public final class ProcessEngines {
    private static final String PROCESS = "<?xml version='1.0'?>"
            + "<definitions xmlns='http://www.omg.org/spec/BPMN/20100524/MODEL'"
            + " xmlns:camunda='http://camunda.org/schema/1.0/bpmn' targetNamespace='porpoise'>"
            + "<process id='order' isExecutable='true' camunda:historyTimeToLive='5'>"
            + "<startEvent id='start'/><sequenceFlow id='begin' sourceRef='start' targetRef='task'/>"
            + "<userTask id='task' name='Pack'/><sequenceFlow id='finish' sourceRef='task' targetRef='end'/>"
            + "<endEvent id='end'/></process></definitions>";
    private static final Map<String, Object> VARIABLES =
            Map.of("customer", "Zoë", "amount", 5L, "ordered", new Date(1_709_210_096_000L));

    private interface Test {
        void run(String url) throws Exception;
    }

    private static int number;
    private static boolean failed;

    private ProcessEngines() {}

    public static void main(String[] arguments) throws Exception {
        System.out.println("TAP version 13");
        check("flowable", ProcessEngines::flowable);
        check("camunda", ProcessEngines::camunda);
        System.out.println("1.." + number);
        System.exit(failed ? 1 : 0);
    }

    private static void check(String name, Test test) {
        number++;
        String address = System.getenv("CLIENTS_MYSQL_HOST") + ":" + System.getenv("CLIENTS_MYSQL_PORT");
        String server = "jdbc:mysql://" + address + "/";
        // Both engines look for tables of the same names, each in its own database only.
        String options = "?allowPublicKeyRetrieval=true&sslMode=PREFERRED&nullDatabaseMeansCurrent=true"
                + "&sessionVariables=transaction_isolation='READ-COMMITTED'";
        try (Connection connection = DriverManager.getConnection(server + options, "root", "")) {
            try (Statement statement = connection.createStatement()) {
                statement.execute("DROP DATABASE IF EXISTS " + name);
                statement.execute("CREATE DATABASE " + name);
            }
            test.run(server + name + options);
            System.out.println("ok " + number + " - " + name);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("not ok " + number + " - " + name + ": " + error);
        }
    }

    private static void same(Object wanted, Object found) {
        if (!Objects.equals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    private static void flowable(String url) {
        org.flowable.engine.ProcessEngine engine =
                org.flowable.engine.ProcessEngineConfiguration.createStandaloneProcessEngineConfiguration()
                        .setJdbcUrl(url)
                        .setJdbcDriver("com.mysql.cj.jdbc.Driver")
                        .setJdbcUsername("root")
                        .setJdbcPassword("")
                        .setDatabaseSchemaUpdate("true")
                        .buildProcessEngine();
        try {
            engine.getRepositoryService().createDeployment().addString("order.bpmn20.xml", PROCESS).deploy();
            engine.getRuntimeService().startProcessInstanceByKey("order", VARIABLES);
            engine.getRuntimeService().startProcessInstanceByKey("order");
            var tasks = engine.getTaskService();
            same(2L, tasks.createTaskQuery().count());
            var task = tasks.createTaskQuery().processVariableValueEquals("amount", 5L).singleResult();
            same("Pack", task.getName());
            tasks.complete(task.getId());
            same(1L, tasks.createTaskQuery().count());
            var history = engine.getHistoryService().createHistoricProcessInstanceQuery();
            var finished = history.finished().includeProcessVariables().list();
            same(List.of(VARIABLES), finished.stream().map(one -> one.getProcessVariables()).toList());
        } finally {
            engine.close();
        }
    }

    private static void camunda(String url) throws Exception {
        org.camunda.bpm.engine.ProcessEngine engine =
                org.camunda.bpm.engine.ProcessEngineConfiguration.createStandaloneProcessEngineConfiguration()
                        .setJdbcUrl(url)
                        .setJdbcDriver("com.mysql.cj.jdbc.Driver")
                        .setJdbcUsername("root")
                        .setJdbcPassword("")
                        .setDatabaseSchemaUpdate("true")
                        .setHistory("full")
                        .buildProcessEngine();
        try {
            engine.getIdentityService().saveUser(engine.getIdentityService().newUser("zoe"));
            engine.getRepositoryService().createDeployment().addString("order.bpmn", PROCESS).deploy();
            engine.getRuntimeService().startProcessInstanceByKey("order", VARIABLES);
            engine.getRuntimeService().startProcessInstanceByKey("order");
            var tasks = engine.getTaskService();
            var task = tasks.createTaskQuery().processVariableValueEquals("amount", 5L).singleResult();
            same("Pack", task.getName());
            tasks.complete(task.getId());
            same(1L, tasks.createTaskQuery().count());
            var history = engine.getHistoryService();
            same(1L, history.createHistoricProcessInstanceQuery().finished().count());
            var customer = history.createHistoricVariableInstanceQuery().variableName("customer").singleResult();
            same("Zoë", customer.getValue());
        } finally {
            engine.close();
        }
        try (Connection connection = DriverManager.getConnection(url, "root", "");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT ID_ FROM ACT_ID_USER")) {
            same(true, rows.next());
            same("zoe", rows.getString(1));
        }
    }
}
