from zkbroker.producer.portable import Intake as Intake
